# Tables: raw records to CSV. Checksums are verified first; nothing here can measure.

TABLES = [
    "points",
    "throughput",
    "sparse",
    "table2",
    "events",
    "consistency",
    "capabilities",
    "space",
    "latency",
    "errors",
    "errors_over_time",
    "resources",
    "noise",
    "scaling",
    "calibration",
    "verdicts",
    "numbers",
    "environment",
]


rule make_tables:
    input:
        RAW_INPUTS,
        code=[
            "src/storelab/tables.py",
            "src/storelab/point_table.py",
            "src/storelab/windows.py",
            "src/storelab/stats.py",
            "src/storelab/facts.py",
            "src/storelab/table2.py",
            "src/storelab/anomalies.py",
            "src/storelab/capabilities.py",
            "src/storelab/space_used.py",
            "src/storelab/events_processed.py",
            "src/storelab/calibrated.py",
            "src/storelab/resources.py",
            "src/storelab/verdicts.py",
            "src/storelab/verdict_rules.py",
            "src/storelab/scan.py",
            "src/storelab/latency.py",
            "src/storelab/error_rates.py",
            "src/storelab/speed.py",
            "src/storelab/comparing.py",
            "src/storelab/noise.py",
            "src/storelab/scaling.py",
        ],
    output:
        [f"{CAMPAIGN}/tables/{name}.csv" for name in TABLES],
    localrule: True
    shell:
        "{SL} tables --campaign-dir {CAMPAIGN}"
