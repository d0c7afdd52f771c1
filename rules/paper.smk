# Paper: tables and figures to LaTeX, LaTeX to PDF.


# All of tex/, in one process; the list of the sections stands for all.
rule write_latex:
    input:
        flow.tables("{folder}"),
        "{folder}/figures/index.json",
        code=code.files("latex"),
    output:
        "{folder}/tex/sections.tex",
    log:
        "{folder}/logs/latex.log",
    localrule: True
    message:
        "LaTeX of {wildcards.folder}"
    shell:
        "{SL} latex --campaign-dir {wildcards.folder} 2>&1 | logged {log}"


# One that somebody asks for by name: `snakemake results/reference/tex/table_best.tex`. The flags in figures.tex say which figures there are.
rule write_section:
    input:
        flow.tables("{folder}"),
        lambda wc: [f"{wc.folder}/figures/index.json"] * (wc.name == "figures"),
        code=code.files("latex"),
    output:
        "{folder}/tex/{name}.tex",
    log:
        "{folder}/logs/latex_{name}.log",
    wildcard_constraints:
        name="|".join(name for name in flow.tex_names() if name != "sections"),
    localrule: True
    message:
        "{wildcards.name}.tex of {wildcards.folder}"
    shell:
        "{SL} latex --campaign-dir {wildcards.folder} {wildcards.name} 2>&1 | logged {log}"


rule typeset_paper:
    input:
        "{folder}/tex/sections.tex",
        "{folder}/figures/index.json",
        prose=sorted(str(path) for path in Path("paper").rglob("*.*")),
    output:
        "{folder}/paper.pdf",
    log:
        "{folder}/logs/paper.log",
    localrule: True
    message:
        "{output}"
    shell:
        "{SL} paper --campaign-dir {wildcards.folder} 2>&1 | logged {log}"


if WORKFLOW.members:

    include: "joined.smk"
