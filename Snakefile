# storelab: config → plan → stage → measure → records ║ tables → figures → paper
#
# Path grammar, everything below results/<campaign>/:
#   raw/plan.json  raw/manifests/<store>/<data set>.json  raw/SHA256SUMS  raw/SEAL
#   raw/<store>/<workload>/<axis~value_…_rep~n>/{run.json,ops.<client>.parquet,reads.<client>.parquet,failed.json}
#   status/…                      markers of the measuring rules: Snakemake may delete them, records it never owns
#   tables/*.csv  figures/*.{pdf,png}  tex/*.tex  paper.pdf  notebooks/*.html
# Wildcards are looked up in the plan, never parsed. Configuration: config.yaml < campaign file < --configfile < --config.
import sys

from storelab.core.errors import UserError
from storelab.cli.code import rests_on
from storelab.cli.workflow import prepare

try:
    WORKFLOW = prepare(config)
except UserError as error:
    print(f"storelab: {error}", file=sys.stderr)
    sys.exit(2)
SL = WORKFLOW.command
CAMPAIGN = WORKFLOW.campaign_dir
RAW_INPUTS = WORKFLOW.raw_inputs


# Every target asks for the raw inputs too: Snakemake makes a missing intermediate file only if somebody asks for it by name.
rule paper:
    input:
        RAW_INPUTS,
        f"{CAMPAIGN}/paper.pdf",


rule figures:
    input:
        RAW_INPUTS,
        f"{CAMPAIGN}/figures/index.json",


rule tables:
    input:
        RAW_INPUTS,
        f"{CAMPAIGN}/tables/points.csv",


rule notebooks:
    input:
        RAW_INPUTS,
        f"{CAMPAIGN}/notebooks/explore.html",
        f"{CAMPAIGN}/notebooks/sparse.html",


# The gate: what can measure is not even read unless the configuration says so.
if WORKFLOW.measuring:

    rule measured:
        input:
            RAW_INPUTS,

    include: "rules/stage.smk"
    include: "rules/measure.smk"

    # Where points are jobs of a batch system, stores live here, on the host that submits them: no job starts one.
    onstart:
        workflow.local_exec or shell("{SL} up --planned >&2")

    onsuccess:
        shell("{SL} down --all")

    onerror:
        shell("{SL} collect || true; {SL} down --all")


include: "rules/tables.smk"
include: "rules/figures.smk"
include: "rules/paper.smk"
include: "rules/notebooks.smk"
