"""Engine `obstore`. May import: what `engines` may, and `common`."""
