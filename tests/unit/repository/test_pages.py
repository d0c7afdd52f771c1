"""Numbers that pages print come from records in the repository, by their tables or by a command."""

import re

import golden
import pandas as pd
import pytest
from paths import ROOT

import campaigns

DOCS = ROOT / "docs"


def expected(campaign: str, table: str) -> pd.DataFrame:
    return pd.read_csv(campaigns.built(campaign) / "tables" / f"{table}.csv")


@pytest.mark.heavy
def test_the_page_on_clusters_and_the_table_say_the_same_knees():
    page, scaling, rates = (
        (DOCS / "cluster.md").read_text(),
        *(expected("testbed2015", n) for n in ("scaling", "throughput")),
    )
    scaling, rates = (t[t["workload"] == "get"] for t in (scaling, rates))
    rows = re.findall(
        r"^\| (\d) \| ([\d.]+) MB/s \| ([\d.]+) MB/s \| ([\d.]+) MB/s \| (.+) \|$", page, flags=re.MULTILINE
    )
    assert [int(r[0]) for r in rows] == [1, 2, 4]
    for ends, *printed, said in rows:
        for clients, value in zip((2, 4, 8), printed, strict=True):
            found = rates[(rates["front_ends"] == int(ends)) & (rates["clients"] == clients)][
                "throughput_median_mb_per_s"
            ]
            assert [value] == [f"{v:.1f}" for v in found]
        curve = scaling[(scaling["front_ends"] == int(ends)) & (scaling["axis"] == "clients")].iloc[0]
        if curve["curve"] == "knee":
            knee = "{:.2f} [{:.2f}, {:.2f}]".format(*curve[["knee_value", "knee_low", "knee_high"]])
            assert said == f"{knee} clients, then {curve['plateau_value']:.1f} MB/s"
        else:
            assert said == f"{curve['curve']}: the knee lies beyond {curve['knee_low']:.2f} clients"
    bound = expected("testbed2015", "throughput")["bound_by"].eq("link")
    assert f"{bound.sum()} of the {len(bound)} groups" in page


def blocks(page: str, command: str) -> list[list[str]]:
    """What the page prints below each call of a command in its consoles, up to the next one: lines, without what is left out (…)."""
    text = (DOCS / page).read_text()
    found = re.findall(rf"^\$ {re.escape(command)}\n((?:(?!```|\$ ).*\n)+)", text, flags=re.MULTILINE)
    return [[line for line in block.splitlines() if line != "…"] for block in found]


@pytest.mark.heavy
@pytest.mark.parametrize("campaign", ["reference", "testbed2015"])
def test_the_verdicts_on_the_page_are_those_of_sealed_campaigns(campaign):
    (lines,) = blocks("verdicts.md", f"storelab verdict --campaign-dir results/{campaign}")
    said = golden.done("verdict", "--campaign-dir", str(campaigns.built(campaign)))
    assert "\n".join(lines[:3]) in said and "\n".join(lines[3:]) in said and len(lines) >= 3


def test_two_pages_give_one_count_of_runs():
    """Of the file L at 1 % of the volume: tests/real/test_root_scales.py makes the file and counts them."""
    runs = {
        name: re.findall(r"\b(1\d \d\d\d)\b[^|\n]*?(?: runs|\| 3\.7 kB)", (DOCS / name).read_text())
        for name in ("sparse-reads.md", "read-planner.md")
    }
    assert runs == {"sparse-reads.md": ["18 906"], "read-planner.md": ["18 906"]}


def test_the_capabilities_are_those_of_sealed_probes(tmp_path):
    folder = tmp_path / "a-copy"  # the page names the campaign, not its folder
    folder.mkdir()
    (folder / "raw").symlink_to(ROOT / "results" / "probes" / "raw")
    golden.done("tables", "--campaign-dir", str(folder))
    golden.done("capabilities", "--campaign-dir", str(folder), "--output", str(tmp_path / "page.md"))
    made = (tmp_path / "page.md").read_text().replace(str(folder), "results/probes")
    assert (DOCS / "capabilities.md").read_text() == made


@pytest.mark.parametrize("other", ["again", "versitygw"])
def test_the_comparison_on_the_page_is_that_of_sealed_records(other):
    command = f"compare results/compared:seaweedfs results/compared:{other}"
    (lines,) = blocks("statistics.md", f"storelab {command}")
    assert len(lines) == 10 and "\n".join(lines) in golden.done(*command.split())


@pytest.mark.heavy
def test_the_comparison_of_two_systems_of_the_reference_is_on_the_page():
    command = "compare results/reference:seaweedfs results/reference:versitygw"
    (lines,) = blocks("statistics.md", f"storelab {command}")
    said = [" ".join(line.split()) for line in golden.done(*command.split()).splitlines()]
    rows = [" ".join(line.split()) for line in lines if line.startswith("│")]
    assert len(rows) == 7 and all(row in said for row in rows)
