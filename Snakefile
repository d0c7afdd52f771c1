# storelab: config → plan → stage → measure → records ║ tables → figures → paper
#
# Path grammar, everything below results/<campaign>/:
#   raw/plan.json  raw/manifests/<store>/<data set>.json  raw/SHA256SUMS  raw/SEAL  <campaign>.crate.zip
#   raw/<store>/<workload>/<axis~value_…_rep~n>/{run.json,ops.<client>.parquet,reads.<client>.parquet,failed.json}
#   status/…                      markers of the measuring rules; Snakemake may delete these, but never records
#   tables/*.csv  figures/<name>.{json,pdf,png}  figures/index.json  tex/*.tex  paper.pdf  report.html  notebooks/*.html  logs/*.log
# Wildcards are looked up in the plan, not parsed. Configuration: config.yaml < campaign file < --configfile < --config.
#
# `snakemake --lint` reports only that shell commands use SL, CAMPAIGN and WORKFLOW from outside of the rule. They are not `params`, because then
# another option of the command line would make all outputs again, although they depend only on records and code.
from snakemake.utils import min_version

from storelab.cli import workflow as flow

min_version("9.27")


# Used only with `--software-deployment-method apptainer`; envs/storelab.def has the command that builds it.
container: "envs/storelab.sif"


WORKFLOW = flow.start(config, workflow.is_main_process)
SL = WORKFLOW.command
CAMPAIGN = WORKFLOW.campaign_dir
RAW_INPUTS = WORKFLOW.raw_inputs
TABLES = WORKFLOW.tables
NOTEBOOKS = glob_wildcards("notebooks/{name}.ipynb").name
# The output of a command goes to the terminal and into its log. It is complete, because `logged` ignores signals.
shell.prefix(f"set -euo pipefail; {flow.LOGGED}")


# Every target also requires the files of earlier stages, because Snakemake makes a missing intermediate file only if a target names it.
rule paper:
    input:
        RAW_INPUTS + TABLES + WORKFLOW.indexes,
        f"{CAMPAIGN}/{WORKFLOW.pdf}",
    message:
        "the paper is {CAMPAIGN}/{WORKFLOW.pdf}"


rule figures:
    input:
        RAW_INPUTS + TABLES,
        WORKFLOW.in_each_campaign(["figures/index.json"]),
    message:
        "the figures are in {WORKFLOW.places}: figures/"


rule tables:
    input:
        RAW_INPUTS + TABLES,
    message:
        "the tables are in {WORKFLOW.places}: tables/"


# The figures and the tables for Snakemake's own report (`make workflow-report`).
rule pictures:
    input:
        TABLES,
        lambda _: flow.pictures(CAMPAIGN),
    message:
        "the figures of {CAMPAIGN} are ready"


rule notebooks:
    input:
        RAW_INPUTS,
        WORKFLOW.in_each_campaign(f"notebooks/{name}.html" for name in NOTEBOOKS),
    message:
        "the notebooks are in {WORKFLOW.places}: notebooks/"


# The gate: the measuring rules are read only if the configuration allows measuring.
if WORKFLOW.measuring:

    rule measured:
        input:
            RAW_INPUTS,

    include: "rules/stage.smk"
    include: "rules/measure.smk"

    # If points are jobs of a batch system, the stores run on the submit host, because no job starts a store.
    onstart:
        workflow.local_exec or shell("{SL} up --planned >&2")

    onerror:
        shell("{SL} collect --after-error || true; {SL} down --planned")


onsuccess:
    WORKFLOW.measuring and shell("{SL} down --planned")
    flow.report_made(CAMPAIGN)


# Snakemake calls no hook if there is nothing to do.
flow.report_if_up_to_date(workflow, CAMPAIGN)


include: "rules/tables.smk"
include: "rules/figures.smk"
include: "rules/paper.smk"
include: "rules/report.smk"
include: "rules/notebooks.smk"
