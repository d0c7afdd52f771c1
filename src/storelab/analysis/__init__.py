"""Analysis of a campaign, from its records to tables, figures, report and paper.

May import: only `core`. Never loads a store, an engine or a client.
"""
