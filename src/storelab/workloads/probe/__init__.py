"""`probe`: the capabilities of a store. One module of questions per protocol, asked one after another.

May import: what `workloads` may.
"""
