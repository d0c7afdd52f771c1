"""Records to paper, by kind, one stem per subject: records, statistics, parts, tables, figures, latex, compare.

May import: `core` alone. Never loads a store, an engine or a client.
"""
