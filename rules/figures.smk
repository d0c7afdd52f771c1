# Figures: tables to PDF and PNG. A figure has a .json always, and pictures unless the campaign has no data for it.


# All that are stale, in one process: to start one takes longer than to draw. Which have data is only known then: the index stands for all.
rule draw_figures:
    input:
        flow.tables("{folder}"),
        code=flow.source_files("figures"),
    output:
        "{folder}/figures/index.json",
    log:
        "{folder}/logs/figures.log",
    localrule: True
    # Of several campaigns one process each, which loads its libraries once.
    threads: workflow.cores if len(WORKFLOW.campaigns) == 1 else 1
    message:
        "figures of {wildcards.folder}, those older than the tables or their code"
    shell:
        "{SL} figures --stale --jobs {threads} {WORKFLOW.kinds} --campaign-dir {wildcards.folder} 2>&1 | logged {log}"


# One that somebody asks for by name: `snakemake results/reference/figures/entries.pdf`.
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
        "{SL} figures --campaign-dir {wildcards.folder} {wildcards.name} 2>&1 | logged {log}"
