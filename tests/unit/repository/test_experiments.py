"""Where each experiment of 2010 to 2015 stands (docs/campaigns.md): sealed records, with the figures that they can have."""

import re

import pytest
from paths import ROOT

from storelab.analysis.figures import catalogue
from storelab.analysis.tables import TABLE
from storelab.core import config, records

SECTION = (ROOT / "docs" / "campaigns.md").read_text().partition("### Where each experiment stands\n")[2]
ROWS = re.findall(r"^\| (\d+) .*? \| (.+?) \| (.+?) \| (.+?) \|$", SECTION.partition("\n## ")[0], flags=re.MULTILINE)


def named(cell):
    return re.findall(r"`(\w[\w-]*)`", cell)


def test_all_sixteen_stand_there():
    assert [int(number) for number, *_ in ROWS] == [*range(1, 17)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_records_are_sealed_and_can_have_the_figures_and_tables(row):
    _, where, figures, tables = row
    sealed = [name for name in named(where) if (ROOT / "results" / name / "raw" / "SEAL").exists()]
    assert sealed and set(named(where)) - set(sealed) <= set(config.names_of_campaigns(ROOT))
    plans = [records.read_json(ROOT / "results" / name / "raw" / "plan.json") for name in sealed]
    assert set(named(figures)) <= {name for plan in plans for name in catalogue.names(plan)}
    assert named(tables) and set(named(tables)) <= set(TABLE.declared)
