# Notebooks: executed on the campaign's tables, kept as HTML; the notebooks themselves stay without outputs.


rule execute_notebook:
    input:
        TABLES,
        f"{CAMPAIGN}/figures/index.json",
        notebook="notebooks/{notebook}.ipynb",
        code=lambda wc: code.notebook_code(Path(f"notebooks/{wc.notebook}.ipynb")),
    output:
        f"{CAMPAIGN}/notebooks/{{notebook}}.html",
    log:
        f"{CAMPAIGN}/logs/notebook_{{notebook}}.log",
    localrule: True
    params:
        convert=f"jupyter nbconvert --log-level ERROR --execute --to html --output-dir {CAMPAIGN}/notebooks",
    message:
        "notebook {wildcards.notebook} of {CAMPAIGN}"
    shell:
        "STORELAB_CAMPAIGN_DIR=$(realpath {CAMPAIGN}) {params.convert} --output {wildcards.notebook} {input.notebook} 2>&1 | logged {log}"
