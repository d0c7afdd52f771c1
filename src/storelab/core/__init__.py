"""The common basis of measuring and analysis.

It contains errors, model (Point, Axis, Workload), declarations as pure data (axes, engines), units, clock, config,
plan, calibration and the schema of records. It imports nothing else of storelab.
"""
