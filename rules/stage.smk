# Stage: the plan is written, data sets go into the stores. Included only when config says measure: true.


rule plan:
    output:
        f"{CAMPAIGN}/status/plan",
    localrule: True
    shell:
        "{SL} plan --write && touch {output}"


rule stage:
    input:
        ancient(f"{CAMPAIGN}/status/plan"),
    output:
        f"{CAMPAIGN}/status/staged/{{store}}/{{dataset}}.done",
    # Before every measurement, so that the plan's order holds.
    priority: len(WORKFLOW.points) + 2
    localrule: True
    threads: workflow.cores
    resources:
        measuring=1,
    shell:
        "{SL} stage --store {wildcards.store} --dataset {wildcards.dataset} && touch {output}"
