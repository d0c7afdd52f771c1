# make demo             set up the environment, measure the demonstration on an embedded store, build its paper
# make measure          measure the missing points of a campaign, build its paper and page: CAMPAIGN=site CONFIG="scale=0.1 repetitions=2"
#                       (it installs what is missing, then calls `storelab run`)
# make paper            rebuild a paper from raw records; never measures: CAMPAIGN=reference. A bare `snakemake` does the same.
#                       one paper of several campaigns: CAMPAIGN="reference compared"; in two columns: LAYOUT=conference; of 2010 to 2015: LAYOUT=evaluations
# make report           write the page of a campaign, results/<campaign>/report.html, from its raw records
# make workflow-report  write Snakemake's own report into the same folder (workflow.html): rules, run times, figures, tables
# make notebooks        execute the notebooks on a campaign, and save them as HTML
# make lab              open the notebooks in JupyterLab
# make docs             build the documentation as a site: site/index.html
# make setup            create the environment .venv, and build storelab's Go programs
# make tex              install LaTeX
# make test             run all tests that need neither root nor a heavy package
# make lint             check the style, the types and the generated pages
# make lock             resolve the dependencies of pyproject.toml again
# make clean            remove what can be made again; records are kept
SHELL := /bin/bash
PATH := $(CURDIR)/.venv/bin:$(PATH)
export PATH
# This forwards signals to Snakemake and its processes.
RUN := python -m storelab.cli.snakemake --profile profiles/local
SNAKEMAKE := exec envs/forward.sh $(RUN)
# Without LaTeX, everything except the PDF is made.
TARGET = $(if $(shell command -v latexmk),paper,figures)

help:
	@sed -n '/^#/!q; s/^# //p' Makefile

.PHONY: help demo test paper report workflow-report measure notebooks lab docs lint lock setup tex clean

# The demonstration needs no Go programs, so they are not built here.
demo: CAMPAIGN := demo
demo: PARTS := environment
demo: measure

measure: CAMPAIGN ?= demo
measure: setup tex
	@exec storelab run $(CAMPAIGN) $(CONFIG)

paper: CAMPAIGN ?= reference
paper: setup tex
	@$(SNAKEMAKE) --config measure=false campaign="$(CAMPAIGN)" $(addprefix layout=,$(LAYOUT)) -- $(TARGET)

report: CAMPAIGN ?= reference
report: setup
	@$(SNAKEMAKE) --config measure=false campaign=$(CAMPAIGN) -- write_report

workflow-report: CAMPAIGN ?= reference
workflow-report: setup
	@envs/forward.sh $(RUN) --config measure=false campaign=$(CAMPAIGN) -- figures
	@$(SNAKEMAKE) --config measure=false campaign=$(CAMPAIGN) --report results/$(CAMPAIGN)/workflow.html -- pictures

notebooks: CAMPAIGN ?= reference
notebooks: setup
	@$(SNAKEMAKE) --config measure=false campaign="$(CAMPAIGN)" -- notebooks

lab: PARTS := environment
lab: setup
	@envs/lab.sh

# One session: all tests of a file run in the same process, and the tests with real programs share one store (tests/support/complete_run.py).
# There is one process more than cores, because some tests wait.
PROCESSES = $(shell n=$$(($$(nproc) + 1)); echo $$((n < 8 ? n : 8)))
# Tests write bytecode even if the shell sets PYTHONDONTWRITEBYTECODE. Processes that they start follow the shell's setting (tests/conftest.py).
test: PARTS := dev
test: setup tex
	@PYTHONDONTWRITEBYTECODE= python -m pytest $(PYTEST_OPTIONS) -m "not root and not heavy and not alone" -n $(PROCESSES) --dist loadgroup --no-loadscope-reorder

# Hide the generator's note on its successor.
DOCS := NO_MKDOCS_2_WARNING=1 mkdocs build --strict
docs: PARTS := dev
docs: setup
	@$(DOCS)

lint: PARTS := dev
lint: setup
	@ruff check . && ruff format --check . && codespell && lint-imports --no-cache --no-logo && mypy --no-error-summary && snakefmt --check Snakefile workflow rules && nbstripout --verify notebooks/*.ipynb && storelab docs --check && $(DOCS) -q -d .storelab/site

setup:
	@envs/setup.sh $(PARTS)

tex:
	@command -v latexmk >/dev/null && kpsewhich lmodern.sty >/dev/null || xargs -a envs/debian-tex.txt envs/apt.sh || \
	echo "storelab: LaTeX is missing, so everything except the PDF is made"

# Users install requirements.lock, developers also dev.lock, and `make lab` also lab.lock. All have the same versions.
COMPILE := uv pip compile --universal --python-version 3.11 --generate-hashes --quiet --no-annotate --no-header --no-emit-package readplan
lock: setup
	@$(COMPILE) pyproject.toml --extra measure --group notebooks --group setup -o envs/requirements.lock
	@$(COMPILE) -c envs/requirements.lock --group dev -o envs/dev.lock
	@$(COMPILE) -c envs/requirements.lock envs/lab.in -o envs/lab.lock

# This keeps the records of campaigns, the files of users, and the state of stores, which may be running.
MADE := tables figures tex notebooks logs status work paper.pdf conference.pdf report.html workflow.html *.crate.zip
clean:
	@envs/idle.sh clean
	@rm -rf .snakemake .pytest_cache .ruff_cache .mypy_cache $(foreach name,$(MADE),results/*/$(name) results/papers/*/$(name))
	@rmdir -p results/papers/* 2>/dev/null || true
