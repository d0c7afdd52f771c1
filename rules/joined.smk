# One paper of several campaigns. It joins the files that the rules of the campaigns made.
# CAMPAIGN is the folder of the paper, results/papers/<their names>/.
FOLDERS = list(WORKFLOW.campaigns)


rule join_campaigns:
    input:
        TABLES,
        WORKFLOW.indexes,
        templates=TEMPLATES,
        code=flow.source_files("papers"),
    output:
        f"{CAMPAIGN}/tex/paper.tex",
    log:
        f"{CAMPAIGN}/logs/join.log",
    localrule: True
    message:
        "{WORKFLOW.places}: joined in {CAMPAIGN}"
    shell:
        "{SL} join --output {CAMPAIGN} {FOLDERS} 2>&1 | logged {log}"


rule typeset_joined:
    input:
        f"{CAMPAIGN}/tex/paper.tex",
    output:
        f"{CAMPAIGN}/{WORKFLOW.pdf}",
    log:
        f"{CAMPAIGN}/logs/paper.log",
    localrule: True
    message:
        "{output}"
    shell:
        "{SL} paper {CAMPAIGN} --layout {WORKFLOW.layout} 2>&1 | logged {log}"
