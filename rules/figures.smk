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
        code=[
            "src/storelab/figures.py",
            "src/storelab/figures_systems.py",
            "src/storelab/figures_resources.py",
            "src/storelab/figures_latency.py",
            "src/storelab/figures_errors.py",
            "src/storelab/figures_sparse.py",
            "src/storelab/figures_gaps.py",
            "src/storelab/figures_events.py",
            "src/storelab/plots.py",
            "src/storelab/drawing.py",
            "src/storelab/words.py",
        ],
    output:
        f"{CAMPAIGN}/figures/index.json",
    localrule: True
    shell:
        "{SL} figures --campaign-dir {CAMPAIGN}"
