"""Engine `loadgen`. May import: what `engines` may, and `common`."""
