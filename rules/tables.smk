# Tables: from raw records to CSV, in one scan. Checksums are verified first. These rules cannot measure.
# {folder} is the folder of a campaign. A joined paper has several.


wildcard_constraints:
    folder=WORKFLOW.pattern,


rule make_tables:
    input:
        lambda wc: WORKFLOW.campaigns[wc.folder].raw_inputs,
        code=flow.source_files("tables"),
    output:
        report(flow.tables("{folder}"), caption="captions/table.rst", category="Tables"),
    log:
        "{folder}/logs/tables.log",
    localrule: True
    message:
        "tables of {wildcards.folder}, from its records"
    shell:
        "{SL} tables {wildcards.folder} 2>&1 | logged {log}"
