# Notebooks: executed on the tables of the campaign and saved as HTML. The notebook files themselves keep no outputs.


rule execute_notebook:
    input:
        flow.tables("{folder}"),
        "{folder}/figures/index.json",
        notebook="notebooks/{notebook}.ipynb",
        code=flow.source_files("notebooks"),
    output:
        "{folder}/notebooks/{notebook}.html",
    log:
        "{folder}/logs/notebook_{notebook}.log",
    localrule: True
    params:
        convert="jupyter nbconvert --log-level ERROR --execute --to html --output-dir {folder}/notebooks",
        # Without these libraries, which the page would load from the network. No notebook needs them.
        alone="--HTMLExporter.require_js_url=data:, --HTMLExporter.mathjax_url=data:,",
    message:
        "notebook {wildcards.notebook} of {wildcards.folder}"
    shell:
        "STORELAB_CAMPAIGN_DIR=$(realpath {wildcards.folder}) {params.convert} {params.alone} --output {wildcards.notebook} {input.notebook} 2>&1 | logged {log}"
