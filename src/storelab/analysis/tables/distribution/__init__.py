"""Distribution of software: releases that are published, applications that are started.

May import: what `tables` may.
"""
