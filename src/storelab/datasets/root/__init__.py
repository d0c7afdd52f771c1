"""ROOT files: the generated file and its baskets; decoding and headers without the costs of general readers.

May import: `readplan`, `core`.
"""
