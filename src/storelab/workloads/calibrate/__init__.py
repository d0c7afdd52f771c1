"""`calibrate`: what the clients could do at most; `local_copies` are the loops over memory and files.

May import: what `workloads` may.
"""
