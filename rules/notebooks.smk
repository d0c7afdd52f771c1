# Notebooks: executed on the campaign's tables, kept as HTML; the notebook itself stays without outputs.


rule execute_notebook:
    input:
        f"{CAMPAIGN}/tables/points.csv",
        f"{CAMPAIGN}/figures/index.json",
        notebook="notebooks/explore.ipynb",
    output:
        f"{CAMPAIGN}/notebooks/explore.html",
    shell:
        "STORELAB_CAMPAIGN_DIR=$(realpath {CAMPAIGN}) jupyter nbconvert --log-level ERROR --execute --to html --output-dir {CAMPAIGN}/notebooks --output explore {input.notebook}"
