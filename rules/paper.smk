# Paper: tables and figures to LaTeX, LaTeX to PDF.
TEX = [
    "numbers",
    "figures",
    "sections",
    "table_best",
    "table_throughput",
    "table_sparse",
    "table_two",
    "table_volume",
    "table_replay",
    "table_events",
    "table_systems",
    "table_capabilities",
    "table_evidence",
    "table_consistency",
    "table_space",
    "table_latency",
    "table_errors",
    "table_invalid",
    "table_knees",
    "table_verdicts",
    "table_calibration",
    "table_failed",
    "table_environment",
]
SECTIONS = sorted(glob_wildcards("paper/sections/{name}.tex").name)


rule write_latex:
    input:
        [f"{CAMPAIGN}/tables/{name}.csv" for name in TABLES],
        f"{CAMPAIGN}/figures/index.json",
        code=rests_on("storelab.analysis.latex.write"),
    output:
        [f"{CAMPAIGN}/tex/{name}.tex" for name in TEX],
    localrule: True
    shell:
        "{SL} latex --campaign-dir {CAMPAIGN}"


rule typeset_paper:
    input:
        [f"{CAMPAIGN}/tex/{name}.tex" for name in TEX],
        f"{CAMPAIGN}/figures/index.json",
        "paper/paper.tex",
        expand("paper/sections/{name}.tex", name=SECTIONS),
    output:
        f"{CAMPAIGN}/paper.pdf",
    localrule: True
    shell:
        "{SL} paper --campaign-dir {CAMPAIGN}"
