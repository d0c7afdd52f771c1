# Figures: tables to PDF and PNG. Which ones there are depends on the data, so the index stands for them.


rule draw_figures:
    input:
        [
            f"{CAMPAIGN}/tables/{name}.csv"
            for name in (
                "throughput",
                "sparse",
                "events",
                "space",
                "resources",
                "latency",
                "errors_over_time",
            )
        ],
        code=rests_on("storelab.analysis.figures.write"),
    output:
        f"{CAMPAIGN}/figures/index.json",
    localrule: True
    shell:
        "{SL} figures --campaign-dir {CAMPAIGN}"
