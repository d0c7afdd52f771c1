"""`probe`: find the capabilities of a store.

Each protocol has a module of questions, which are asked one after another.
"""
