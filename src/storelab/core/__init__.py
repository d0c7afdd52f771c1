"""The common basis of measuring and analysis. It imports nothing else of storelab.

It contains the errors, the model (Point, Axis, Workload), declarations without code (axes, engines), units, the clock,
the configuration, the plan, the calibration, and the format of the records.
"""
