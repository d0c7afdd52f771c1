"""The page of a campaign while it is measured: what its files say, served to browsers and to Prometheus.

It reads plan, records and `work/live.json`, and nothing else: whoever measures does not know that somebody looks.
May import: `report`, `records`, `core`.
"""
