# Paper: from tables, figures and the templates in paper/ to LaTeX, and from LaTeX to PDF.
TEMPLATES = sorted(str(path) for path in Path("paper").rglob("*.*"))


# One process writes all files of tex/. The output is paper.tex, which represents all of them.
rule write_latex:
    input:
        flow.tables("{folder}"),
        "{folder}/figures/index.json",
        templates=TEMPLATES,
        code=flow.source_files("latex"),
    output:
        "{folder}/tex/paper.tex",
    log:
        "{folder}/logs/latex.log",
    localrule: True
    message:
        "LaTeX of {wildcards.folder}"
    shell:
        "{SL} latex {wildcards.folder} 2>&1 | logged {log}"


# A single file, named on the command line: `snakemake results/reference/tex/table_best.tex`.
rule write_section:
    input:
        flow.tables("{folder}"),
        code=flow.source_files("latex"),
    output:
        "{folder}/tex/{name}.tex",
    log:
        "{folder}/logs/latex_{name}.log",
    wildcard_constraints:
        name="|".join(name for name in flow.tex_names() if name != "paper"),
    localrule: True
    message:
        "{wildcards.name}.tex of {wildcards.folder}"
    shell:
        "{SL} latex {wildcards.folder} {wildcards.name} 2>&1 | logged {log}"


rule typeset_paper:
    input:
        "{folder}/tex/paper.tex",
        "{folder}/figures/index.json",
    output:
        "{folder}/paper.pdf",
    log:
        "{folder}/logs/paper.log",
    localrule: True
    message:
        "{output}"
    shell:
        "{SL} paper {wildcards.folder} 2>&1 | logged {log}"


if WORKFLOW.members:

    include: "joined.smk"
