"""Engine `fsspec`. May import: what `engines` may, and `common`."""
