"""The documentation names everything that users can name, and its numbers equal those of records in the repository."""

import csv
import functools
import re

import command_line
import pandas as pd
import pytest
from paths import ROOT

import campaigns
from storelab.analysis.figures import catalogue
from storelab.analysis.tables import TABLES
from storelab.cli import cli
from storelab.core import axes, config, integrity
from storelab.stores import KINDS, load
from storelab.workloads import WORKLOADS

DOCS = ROOT / "docs"
PAGES = {p.name: p.read_text() for p in (ROOT / "README.md", *DOCS.glob("*.md"), *DOCS.glob("reference/*.md"))}
SHARED = "Columns of several tables"


def sections(page: str) -> dict[str, str]:
    """Return headings of level 2, without their marks, and the text below each."""
    parts = re.split(r"^## (.+)$", PAGES[page], flags=re.MULTILINE)
    return {head.strip("`"): text for head, text in zip(parts[1::2], parts[2::2], strict=True)}


def quoted(text: str) -> set[str]:
    """Return the quoted words of the text; `{a,b}_s` means `a_s` and `b_s`."""
    return {word for words in re.findall(r"`([^`\n]+)`", text) for word in expanded(words)}


def expanded(words: str) -> list[str]:
    if not (found := re.search(r"\{([^{}]+,[^{}]+)\}", words)):
        return [words]
    ends = words[: found.start()], words[found.end() :]
    return [word for part in found[1].split(",") for word in expanded(part.join(ends))]


def first_cells(text: str) -> list[str]:
    """Return the first cells of all rows of tables that begin with a quoted word."""
    return re.findall(r"^\| (`.+?) \|", text, flags=re.MULTILINE)


# What a user can name


def test_commands_and_campaigns_are_listed():
    listed = re.findall(r"`storelab (\w+)`", "".join(first_cells(PAGES["commands.md"])))
    assert sorted(listed) == sorted(cli.list_commands(None))
    _, _, rest = PAGES["campaigns.md"].partition("\n| campaign |")
    listed = [name.strip("`") for name in first_cells(rest.partition("\n\n")[0])]
    assert sorted(listed) == sorted(p.stem for p in (ROOT / "campaigns").glob("*.yaml"))


def test_workloads_and_kinds_of_stores_are_documented():
    assert set(WORKLOADS) <= quoted(PAGES["campaigns.md"])
    assert set(KINDS) <= quoted(PAGES["stores.md"]) | quoted(PAGES["calibration.md"])


def test_deployments_name_the_kinds_that_have_them():
    _, _, section = PAGES["stores.md"].partition("## Deployments")
    rows = {row.split("`")[1]: set(re.findall(r"\w+", row)) for row in re.findall(r"^\| `.*", section, re.MULTILINE)}
    kinds = {kind: load(kind) for kind in KINDS if load(kind).managed and load(kind).retains_data}
    having = {a.name: {k for k, s in kinds.items() if a.setting in s.Settings.model_fields} for a in axes.DEPLOYMENT}
    having |= {"accounts": {kind for kind, store in kinds.items() if store.most_accounts > 1}}
    for name, known in having.items():
        assert known == kinds.keys() or rows[name] & kinds.keys() == known, name
    assert quoted(section.partition("Setting `drive_size`")[2].partition("\n")[0]) == {
        kind for kind, store in kinds.items() if "drive_size" in store.Settings.model_fields
    }


@functools.cache
def columns() -> dict[str, set[str]]:
    """Return the columns of each table of two synthetic campaigns, which have every kind of table."""
    out: dict[str, set[str]] = {}
    for path in (path for name in ("broad", "roles") for path in (campaigns.built(name) / "tables").glob("*.csv")):
        with path.open(newline="") as f:
            out.setdefault(path.name, set()).update(next(csv.reader(f)))
    return out


def family(column: str) -> str:
    """Return the name in docs/tables.md of a column, its parts and windows; of a role's axis, that of the axis."""
    column = re.sub("_(median|low|high)_", "_*_", re.sub("^[a-z]+[.]", "", column))
    return re.sub("^errors_[0-9]+$", "errors_<status>", re.sub("^(overlap|first_done|last_done)_", "<window>_", column))


def test_columns_are_explained():
    page, wrong = sections("tables.md"), {}
    assert page.keys() - {SHARED} == columns().keys()
    axes_of_all = {a.column for a in (*(a for w in WORKLOADS.values() for a in w.axes), *axes.roles.WHOLE)}
    for table, found in columns().items():
        explained = quoted(page[table]) | quoted(page[SHARED]) | axes_of_all
        named = {name for row in first_cells(page[table]) for name in quoted(row)}
        missing = {c for c in found if not {c, family(c)} & explained}
        invented = named - found - {family(c) for c in found}
        if missing or invented or not named:
            wrong[table] = (missing, invented)
    assert not wrong
    assert all(a.name in PAGES["workloads.md"] for w in WORKLOADS.values() for a in w.axes)


def test_experiments_of_2010_to_2015_have_sealed_records():
    """Each row names sealed campaigns, and figures and tables that they can have."""
    text = PAGES["evaluations.md"].partition("## Records of each experiment\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\d+) .*? \| (.+?) \| (.+?) \| (.+?) \|$", text, flags=re.MULTILINE)
    assert [int(number) for number, *_ in rows] == [*range(1, 17)]

    @functools.cache
    def figures_of(name):
        return set(catalogue.names(integrity.plan_of(ROOT / "results" / name / "raw")))

    for number, where, figures, tables in rows:
        places, drawn, made = (re.findall(r"`(\w[\w-]*)`", cell) for cell in (where, figures, tables))
        sealed = [name for name in places if (ROOT / "results" / name / "raw" / "SEAL").exists()]
        assert sealed and set(places) - set(sealed) <= set(config.names_of_campaigns(ROOT)), number
        assert set(drawn) <= set().union(*map(figures_of, sealed)), number
        assert made and set(made) <= set(TABLES), number


# Numbers


def blocks(page: str, command: str) -> list[list[str]]:
    """Return the output that the page prints below each call of a command, without the lines that it leaves out."""
    found = re.findall(rf"^\$ {re.escape(command)}\n((?:(?!```|\$ ).*\n)+)", PAGES[page], flags=re.MULTILINE)
    return [[line for line in block.splitlines() if line != "…"] for block in found]


@pytest.mark.heavy
def test_knees_on_the_testbed_page_are_those_of_the_table():
    page, tables = PAGES["testbed.md"], campaigns.built("throughput2015") / "tables"
    scaling, throughput = (pd.read_csv(tables / f"{name}.csv") for name in ("scaling", "throughput"))
    bound = throughput["bound_by"].eq("link")
    assert f"{bound.sum()} of the {len(bound)} groups" in page
    scaling, rates = (
        t[(t["workload"] == "get") & (t["engine"] == "loadgen") & (t["object_size_bytes"] == 10_000_000)]
        for t in (scaling, throughput)
    )
    rate = r" ([\d.]+ MB/s|-) \|"
    rows = re.findall(rf"^\| (\d) \|{rate}{rate}{rate} (.+) \|$", page, flags=re.MULTILINE)
    assert [int(r[0]) for r in rows] == [1, 2, 4]
    for ends, *printed, words in rows:
        of_ends = rates[rates["front_ends"] == int(ends)].set_index("clients")["throughput_median_mb_per_s"]
        assert printed == [f"{of_ends[c]:.1f} MB/s" if c in of_ends else "-" for c in (2, 4, 8)]
        curves = scaling[(scaling["front_ends"] == int(ends)) & (scaling["axis"] == "clients")]
        assert len(curves) == (len(of_ends) > 2)
        for _, curve in curves.iterrows():
            knee = "{:.2f} [{:.2f}, {:.2f}]".format(*curve[["knee_value", "knee_low", "knee_high"]])
            assert words == f"{knee} clients, then {curve['plateau_value']:.1f} MB/s"


@pytest.mark.heavy
def test_verdicts_on_their_page_are_those_of_sealed_campaigns():
    for campaign in ("reference", "throughput2015"):
        (lines,) = blocks("verdicts.md", f"storelab verdict {campaign}")
        printed = command_line.done("verdict", str(campaigns.built(campaign)))
        assert len(lines) >= 3 and "\n".join(lines[:3]) in printed and "\n".join(lines[3:]) in printed, campaign


def test_two_pages_give_one_count_of_runs():
    """tests/real/test_root_scales.py makes the file L and counts its runs at 1 % of the volume."""
    for name in ("sparse-reads.md", "read-planner.md"):
        assert re.findall(r"\b(1\d \d\d\d)\b[^|\n]*?(?: runs|\| 3\.7 kB)", PAGES[name]) == ["18 906"], name


def test_capabilities_are_those_of_sealed_probes(tmp_path):
    folder = campaigns.built("probes")
    command_line.done("capabilities", "--campaign-dir", str(folder), "--output", str(tmp_path / "page.md"))
    made = (tmp_path / "page.md").read_text().replace(str(folder), "results/probes")
    assert PAGES["capabilities.md"] == made


@pytest.mark.heavy
def test_comparison_of_the_reference_is_on_the_page():
    command = "compare results/reference:seaweedfs results/reference:versitygw"
    (lines,) = blocks("statistics.md", f"storelab {command}")
    printed = [" ".join(line.split()) for line in command_line.done(*command.split()).splitlines()]
    rows = [" ".join(line.split()) for line in lines if line.startswith("│")]
    assert len(rows) == 7 and all(row in printed for row in rows)
