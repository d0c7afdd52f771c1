"""Common parts of several engines: transfers, selections, error classes, limits, ledger, objects, timing, wire bytes.

May import: what `engines` may, but no engine.
"""
