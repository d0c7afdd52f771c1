"""`probe`: what a store can do. One module of questions per protocol, asked one after the other.

May import: what `workloads` may.
"""
