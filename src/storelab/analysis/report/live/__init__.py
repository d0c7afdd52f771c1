"""Serve the page of a campaign while it is measured, to browsers and to Prometheus.

The server reads only the plan, the records and `work/live.json`, so it does not affect the measurement. May import:
`report`, `records`, `core`.
"""
