"""Brackets in values are printed as they are, not read as markup of rich."""

from storelab.cli import measuring, stores
from storelab.measure import doctor

HOSTILE = "[fe80::1] [/b] [red]x"


def test_brackets_in_values_are_printed(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    state = {"points": 1, "measured": 0, "sealed": False, "differences": [HOSTILE], "notes": [HOSTILE]}
    measuring._show_ready(state)
    stores._show_nodes([{"host": HOSTILE, "problem": ""}], [], ["host"])
    doctor.print_findings([doctor.Finding(HOSTILE, next(iter(doctor.LEVELS)), HOSTILE, HOSTILE)])
    assert capsys.readouterr().out.count(HOSTILE) == 6
