# Tables: raw records to CSV. Checksums are verified first; nothing here can measure.

TABLES = [
    "points",
    "throughput",
    "sparse",
    "consistency",
    "capabilities",
    "space",
    "numbers",
    "environment",
]


rule make_tables:
    input:
        RAW_INPUTS,
        code=[
            "src/storelab/tables.py",
            "src/storelab/windows.py",
            "src/storelab/stats.py",
            "src/storelab/facts.py",
            "src/storelab/anomalies.py",
            "src/storelab/capabilities.py",
            "src/storelab/space_used.py",
        ],
    output:
        [f"{CAMPAIGN}/tables/{name}.csv" for name in TABLES],
    shell:
        "{SL} tables --campaign-dir {CAMPAIGN}"
