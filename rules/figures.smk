# Figures: tables to PDF and PNG. A figure has a .json always, and pictures unless the campaign has no data for it.


# All that are stale, in one process: to start one takes longer than to draw. Which have data is only known then: the index stands for all.
rule draw_figures:
    input:
        TABLES,
        code=lambda _: code.rests_on(code.FIGURES),
    output:
        f"{CAMPAIGN}/figures/index.json",
    log:
        f"{CAMPAIGN}/logs/figures.log",
    localrule: True
    threads: workflow.cores
    message:
        "figures of {CAMPAIGN}, those older than the tables or their code"
    shell:
        "{SL} figures --stale --jobs {threads} --campaign-dir {CAMPAIGN} 2>&1 | logged {log}"


# One that somebody asks for by name: `snakemake results/reference/figures/entries.pdf`.
rule draw_figure:
    input:
        TABLES,
        code=lambda wc: code.figure_code(WORKFLOW.plan(), wc.name),
    output:
        report(
            f"{CAMPAIGN}/figures/{{name}}.{{kind}}",
            caption="captions/figure.rst",
            category="Figures",
            labels={"figure": "{name}"},
        ),
    log:
        f"{CAMPAIGN}/logs/figure_{{name}}_{{kind}}.log",
    wildcard_constraints:
        name=r"(?!index\.)\w+",
        kind="pdf|png|json",
    localrule: True
    message:
        "figure {wildcards.name} of {CAMPAIGN}"
    shell:
        "{SL} figures --campaign-dir {CAMPAIGN} {wildcards.name} 2>&1 | logged {log}"
