# Notebooks: executed on the campaign's tables, kept as HTML; the notebooks themselves stay without outputs.


rule execute_notebook:
    input:
        f"{CAMPAIGN}/tables/points.csv",
        f"{CAMPAIGN}/figures/index.json",
        notebook="notebooks/{notebook}.ipynb",
    output:
        f"{CAMPAIGN}/notebooks/{{notebook}}.html",
    localrule: True
    shell:
        "STORELAB_CAMPAIGN_DIR=$(realpath {CAMPAIGN}) jupyter nbconvert --log-level ERROR --execute --to html --output-dir {CAMPAIGN}/notebooks --output {wildcards.notebook} {input.notebook}"
