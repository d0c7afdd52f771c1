"""storelab: measures storage the way High Energy Physics uses it, and rebuilds a paper from what it measured."""

__version__ = "0.1.0"
