"""Parts of `hardening.py`: each a module with a function that gives figures, name -> count. Counts, not times."""
