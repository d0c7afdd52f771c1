"""Engine `s5cmd`. May import: what `engines` may, and `common`."""
