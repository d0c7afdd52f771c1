"""What several engines share: transfers, selections, error classes, arrivals, bins, names of objects, wire bytes.

May import: what `engines` may, but no engine.
"""
