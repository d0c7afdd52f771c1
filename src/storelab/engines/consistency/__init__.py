"""Is what a store answers true? Scenarios of writes and looks, judged one by one (level 2, measuring side).

`seen` what an answer is, `s3` and `files` the ways to ask, `ledger` what is written down, `rounds` and `namespace` the scenarios.
"""
