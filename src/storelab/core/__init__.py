"""The contract: what the measuring and the analysis side both rest on.

Here: errors, model (Point, Axis, Workload), declarations as pure data (axes, engines), units, clock, config, plan,
calibration's agreement, records' schema. May import: nothing else of storelab.
"""
