# Figures: from tables to PDF and PNG. A figure always has a .json file, and pictures if the campaign has data for it.


# One process draws all stale figures, because starting it takes longer than drawing. The output is the index, because it is not known before which
# figures have data.
rule draw_figures:
    input:
        flow.tables("{folder}"),
        code=flow.source_files("figures"),
    output:
        "{folder}/figures/index.json",
    log:
        "{folder}/logs/figures.log",
    localrule: True
    # With several campaigns, each has one process, which imports its libraries once.
    threads: workflow.cores if len(WORKFLOW.campaigns) == 1 else 1
    message:
        "figures of {wildcards.folder} that are older than the tables or the code"
    shell:
        "{SL} figures --stale --jobs {threads} {WORKFLOW.kinds} {wildcards.folder} 2>&1 | logged {log}"


# A single figure, named on the command line: `snakemake results/reference/figures/entries.pdf`.
rule draw_figure:
    input:
        flow.tables("{folder}"),
        code=flow.source_files("figures"),
    output:
        report(
            "{folder}/figures/{name}.{kind}",
            caption="captions/figure.rst",
            category="Figures",
            labels={"figure": "{name}"},
        ),
    log:
        "{folder}/logs/figure_{name}_{kind}.log",
    wildcard_constraints:
        name=r"(?!index\.)\w+",
        kind="|".join(["json", *flow.KINDS]),
    localrule: True
    message:
        "figure {wildcards.name} of {wildcards.folder}"
    shell:
        "{SL} figures {wildcards.folder} {wildcards.name} 2>&1 | logged {log}"
