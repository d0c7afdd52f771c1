"""Server of the page of a campaign while it is measured, for browsers and for Prometheus.

The server reads only the plan, the records and `work/live.json`, so that it does not affect the measurement. May
import: `report`, `records`, `core`.
"""
