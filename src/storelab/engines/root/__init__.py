"""Engine `root`: ROOT reads, as the reference; the entry loop in C++ lies beside it. May import: what `engines` may,
and `common`."""
