"""Engine `uproot-s3fs`. May import: what `engines` may, and `common`."""
