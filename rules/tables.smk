# Tables: raw records to CSV, in one scan. Checksums are verified first; nothing here can measure.


rule make_tables:
    input:
        RAW_INPUTS,
        code=lambda _: code.rests_on(code.TABLES),
    output:
        report(TABLES, caption="captions/table.rst", category="Tables"),
    log:
        f"{CAMPAIGN}/logs/tables.log",
    localrule: True
    message:
        "tables of {CAMPAIGN}, from its records"
    shell:
        "{SL} tables --campaign-dir {CAMPAIGN} 2>&1 | logged {log}"
