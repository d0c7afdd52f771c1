"""The code that several engines share: transfers, selections, errors, limits, ledgers, objects, times and wire bytes.

It imports the same packages as `engines`, but no engine.
"""
