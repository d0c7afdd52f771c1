"""LaTeX of what a system can do, whether its answers are true, and what space it takes.

May import: what `latex` may.
"""
