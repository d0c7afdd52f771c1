# Stage: write the plan, and upload the data sets into the stores. Included only with `measure: true`.


rule plan:
    output:
        f"{CAMPAIGN}/status/plan",
    log:
        f"{CAMPAIGN}/logs/plan.log",
    localrule: True
    message:
        "plan of {CAMPAIGN}"
    shell:
        "{SL} plan --write 2>&1 | logged {log} && touch {output}"


rule stage:
    input:
        ancient(f"{CAMPAIGN}/status/plan"),
    output:
        f"{CAMPAIGN}/status/staged/{{store}}/{{dataset}}.done",
    log:
        f"{CAMPAIGN}/logs/stage/{{store}}/{{dataset}}.log",
    # Before every measurement, so that the plan's order holds.
    priority: len(WORKFLOW.points) + 2
    localrule: True
    threads: workflow.cores
    resources:
        measuring=1,
    message:
        "data set {wildcards.dataset} into store {wildcards.store}"
    shell:
        "{SL} stage --store {wildcards.store} --dataset {wildcards.dataset} 2>&1 | logged {log} && touch {output}"
