# Measure: each job measures one point. Included only with `measure: true`.
# The record is not an output: Snakemake deletes outputs before it runs a job again, and a record must never be deleted.


rule measure:
    input:
        ancient(f"{CAMPAIGN}/status/plan"),
        lambda wc: WORKFLOW.datasets[wc.key],
    output:
        f"{CAMPAIGN}/status/{{key}}.done",
    log:
        f"{CAMPAIGN}/logs/measure/{{key}}.log",
    wildcard_constraints:
        key=r"[^/]+/[^/]+/[^/]*rep~\d+",
    # The plan's order: shuffled by seed, interleaved in blocks. All cores, so that nothing else runs during a measurement.
    priority: lambda wc: len(WORKFLOW.points) + 1 - WORKFLOW.points[wc.key].order
    threads: workflow.cores
    # Used only if each point is a separate job (profiles/slurm). The executor needs at least two tasks if a job starts its own steps.
    resources:
        measuring=1,
        nodes=lambda wc: WORKFLOW.nodes[wc.key],
        tasks=lambda wc: max(2, WORKFLOW.nodes[wc.key]),
        runtime=lambda wc: WORKFLOW.minutes[wc.key],
    message:
        "point {wildcards.key}"
    shell:
        "{SL} measure {wildcards.key} 2>&1 | logged {log} && touch {output}"


rule collect:
    input:
        f"{CAMPAIGN}/status/plan",
        [f"{CAMPAIGN}/status/{key}.done" for key in WORKFLOW.points],
    output:
        f"{CAMPAIGN}/status/collected",
    log:
        f"{CAMPAIGN}/logs/collect.log",
    localrule: True
    message:
        "all points of {CAMPAIGN} are measured"
    shell:
        "{SL} collect 2>&1 | logged {log} && touch {output}"
