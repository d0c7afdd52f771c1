"""Engine `root`. May import: what `engines` may, and `common`."""
