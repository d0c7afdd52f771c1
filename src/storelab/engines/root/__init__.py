"""Engine `root`: ROOT itself reads, as the reference; its entry loop is `loop.cpp`.

May import: what `engines` may, and `common`.
"""
