"""ROOT files: the generated file, its baskets; decoding and headers without the costly parts of general readers.

May import: `readplan`, `core`.
"""
