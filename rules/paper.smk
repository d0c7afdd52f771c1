# Paper: tables and figures to LaTeX, LaTeX to PDF.


# All of tex/, in one process; the list of the sections stands for all.
rule write_latex:
    input:
        TABLES,
        f"{CAMPAIGN}/figures/index.json",
        code=lambda _: code.rests_on(code.LATEX),
    output:
        f"{CAMPAIGN}/tex/sections.tex",
    log:
        f"{CAMPAIGN}/logs/latex.log",
    localrule: True
    message:
        "LaTeX of {CAMPAIGN}"
    shell:
        "{SL} latex --campaign-dir {CAMPAIGN} 2>&1 | logged {log}"


# One that somebody asks for by name: `snakemake results/reference/tex/table_best.tex`. The flags in figures.tex say which figures there are.
rule write_section:
    input:
        TABLES,
        lambda wc: [f"{CAMPAIGN}/figures/index.json"] * (wc.name == "figures"),
        code=lambda _: code.rests_on(code.LATEX),
    output:
        f"{CAMPAIGN}/tex/{{name}}.tex",
    log:
        f"{CAMPAIGN}/logs/latex_{{name}}.log",
    wildcard_constraints:
        name="|".join(
            name for name in code.constant(code.LATEX, "TEX") if name != "sections"
        ),
    localrule: True
    message:
        "{wildcards.name}.tex of {CAMPAIGN}"
    shell:
        "{SL} latex --campaign-dir {CAMPAIGN} {wildcards.name} 2>&1 | logged {log}"


rule typeset_paper:
    input:
        f"{CAMPAIGN}/tex/sections.tex",
        f"{CAMPAIGN}/figures/index.json",
        prose=sorted(str(path) for path in Path("paper").rglob("*.*")),
        code=lambda _: code.rests_on(code.TYPESET),
    output:
        f"{CAMPAIGN}/paper.pdf",
    log:
        f"{CAMPAIGN}/logs/paper.log",
    localrule: True
    message:
        "{output}"
    shell:
        "{SL} paper --campaign-dir {CAMPAIGN} 2>&1 | logged {log}"
