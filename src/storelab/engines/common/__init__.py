"""What several engines share: selections, error classes, arrivals, bins, shares, names of objects, wire bytes.

May import: what `engines` may, but no engine.
"""
