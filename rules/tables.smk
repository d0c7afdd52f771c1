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
        code=rests_on("storelab.analysis.tables.build"),
    output:
        [f"{CAMPAIGN}/tables/{name}.csv" for name in TABLES],
    localrule: True
    shell:
        "{SL} tables --campaign-dir {CAMPAIGN}"
