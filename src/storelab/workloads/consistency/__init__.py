"""`consistency`: is what a store answers true? Scenarios of writes and looks, judged one by one.

May import: what `workloads` may.
"""
