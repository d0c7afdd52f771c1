"""ROOT files: the generated file, its baskets; decoding and headers without the machinery that makes reading slow.

May import: `readplan`, `core`.
"""
