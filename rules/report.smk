# Report: from tables and records to one page.


rule write_report:
    input:
        RAW_INPUTS,
        TABLES,
        code=flow.source_files("report"),
    output:
        f"{CAMPAIGN}/report.html",
    log:
        f"{CAMPAIGN}/logs/report.log",
    localrule: True
    message:
        "{output}"
    shell:
        "{SL} report {CAMPAIGN} 2>&1 | logged {log}"
