"""`consistency`: scenarios of writes and reads that check if a store's answers are true, judged one by one.

May import: what `workloads` may.
"""
