"""Parts of `hardening.py`: modules with a function that returns figures, name -> count. They count, not time."""
