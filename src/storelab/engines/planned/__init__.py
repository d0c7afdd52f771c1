"""Engine `planned`: storelab's read planner and decoder. May import: what `engines` may, `common`."""
