# Tables: raw records to CSV. Checksums are verified first; nothing here can measure.


rule make_tables:
    input:
        RAW_INPUTS,
        code=[
            "src/storelab/tables.py",
            "src/storelab/windows.py",
            "src/storelab/stats.py",
            "src/storelab/facts.py",
        ],
    output:
        [
            f"{CAMPAIGN}/tables/{name}.csv"
            for name in ("points", "throughput", "sparse", "numbers", "environment")
        ],
    shell:
        "{SL} tables --campaign-dir {CAMPAIGN}"
