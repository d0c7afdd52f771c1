"""Analyse a campaign from its records to the paper: records, statistics, parts, tables, figures, latex, compare.

May import: only `core`. Never loads a store, an engine or a client.
"""
