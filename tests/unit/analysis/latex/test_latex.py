"""LaTeX fragments: escaping, macros, formats; sections without data are left out; the prose types no numbers."""

import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from garbage_rows import make_table as garbage_rows
from launch_rows import make_table as launch_rows
from make_examples import EVENTS, LATENCY, METADATA, ONE_EACH, REFUSED, make
from paths import ROOT
from release_rows import make_table as release_rows

from campaigns import typeset
from storelab.analysis.figures import catalogue, write
from storelab.analysis.latex import numbers, parts
from storelab.analysis.latex import write as latex
from storelab.analysis.tables import build, releases
from storelab.analysis.tables import numbers as build_numbers

PAPER = ROOT / "paper"


def built(folder: Path, **changes) -> Path:
    make(folder, **changes)
    build.build(folder)
    return written(folder)


def written(folder: Path) -> Path:
    write.build(folder)
    latex.build(folder)
    return folder / "tex"


@pytest.fixture(scope="module")
def tex():
    return typeset("example") / "tex"


def test_escape():
    assert parts.escape("50 % of _all_ {x} & ~#$^\\") == (
        r"50~\% of \_all\_ \{x\} \& \textasciitilde{}\#\$\textasciicircum{}\textbackslash{}"
    )
    assert parts.escape("a\nb\x00é漢") == "a b?é?"
    parts.lost.clear()
    assert parts.escape("“a” ‘b’ 1–2 3—4 x−y μs ≤ Ș ﬁ Ǻ e\u0301 \u200b.") == (
        r"``a'' `b' 1\textendash{}2 3\textemdash{}4 x-y \textmu{}s $\leq$ Ș fi A e ."
    )
    assert not parts.lost, "each has a form that the fonts have"
    assert parts.escape("ŧ漢") == "??"
    assert parts.lost_names() == ["U+0167 LATIN SMALL LETTER T WITH STROKE", "U+6F22 CJK UNIFIED IDEOGRAPH-6F22"]
    assert parts.escape("12 345 MB/s") == r"12\,345~MB/s" and parts.escape("up --links") == "up -{}-links"


def test_numbers_in_the_text():
    cases = (
        *(("88562", "", r"88\,562"), ("1601.6016", "MB/s", "1600~MB/s"), ("1235.0", "MB/s", "1235~MB/s")),
        *(("0.0084321", "s", "0.00843~s"), ("10 MB", "", "10~MB"), ("-3.14159", "", "-3.14")),
    )
    for value, unit, text in cases:
        assert numbers.shown("x", value, unit) == text
    assert numbers.shown("x", "0.6", "", build_numbers.DEFINITIONS) == "0.6", "a constant is not measured"


def test_macros_have_letters_only():
    assert numbers.macro("best_throughput_upload") == r"\NumBestThroughputUpload"
    with pytest.raises(ValueError, match="no LaTeX macro"):
        numbers.macro("best_4kb")


@pytest.mark.heavy
def test_every_macro_of_the_prose_is_defined_when_all_has_data(tex, tmp_path):
    halves = {"workload": "put", "duration": "4 s", "repetitions": 6, "axes": {"front_ends": [1, 2, 3]}}
    sweeps = LATENCY | EVENTS | METADATA | {"refused": REFUSED, "ends": halves}
    timed = built(tmp_path, sweeps=sweeps, invalid=("refused",), repetitions=1, calibrate=True)
    folders = (tex, timed, *(typeset(name) / "tex" for name in ("several", "soak")))
    written = "".join((folder / f"{name}.tex").read_text() for folder in folders for name in ("numbers", "figures"))
    defined = set(re.findall(r"\\newcommand\{(\\\w+)\}", written))
    for of_table, rows in (
        (releases.releases_numbers, release_rows),
        (releases.launches_numbers, launch_rows),
        (releases.collections_numbers, garbage_rows),
    ):
        defined |= {numbers.macro(name) for name, *_ in of_table(rows(tmp_path))}
    defined |= {numbers.macro(name) for name in ("links_known", "links_declared", "link_problem", "second_stores")}
    defined |= {numbers.macro(f"events_{name}_factor_span") for name in ("scan", "random")}  # of several systems
    flags = set(re.findall(r"\\newif(\\if\w+?)\\", (tex / "figures.tex").read_text()))
    prose = "".join(p.read_text() for p in PAPER.rglob("*.tex"))
    assert set(re.findall(r"\\Num[A-Za-z]+", prose)) <= defined
    known = {f"\\Fig{parts.camel(name)}" for name in catalogue.FIGURES}
    assert set(re.findall(r"\\Fig[A-Z][A-Za-z]+", prose)) <= known
    assert known & defined >= {"\\FigEntries", "\\FigFrontEnds"}
    assert set(re.findall(r"\\ifHas[A-Za-z]+", prose)) <= flags


def test_prose_types_no_numbers():
    for path in sorted((PAPER / "sections").glob("*.tex")):
        if path.name == "references.tex":
            continue
        text = re.sub(r"\\(label|ref|input|cite|texttt)\{[^}]*\}|\\emph\{Using S3[^}]*\}|%.*", "", path.read_text())
        assert not re.findall(r"(?<![A-Za-z])\d+", text), path.name


@pytest.mark.parametrize(
    ("names", "first"),
    [
        (["metadata_list", "systems", "earlier"], "systems"),
        (["distributions", "timeline_faults"], "timeline_faults"),
        (["distributions", "volume"], "volume"),
        (["earlier"], None),
        ([], None),
    ],
)
def test_figure_of_the_first_page_is_nowhere_else(names, first):
    drawn = {name: {"pdf": f"{name}.pdf", "caption": "", "table": "x.csv"} for name in names}
    text = latex.figures({}, drawn)
    assert latex.lead(drawn) == first
    for name in names:
        assert text.count(f"{{fig:{name}}}") == 1 and (f"\\Lead{{{name}}}" in text) == (name == first)


def test_failed_points_are_listed_escaped(tex):
    text = (tex / "table_failed.tex").read_text()
    assert r"50~\% of \_" in text and r"\{clients\}" in text


def test_reads_are_next_to_published_ones(tex):
    text = (tex / "table_two.tex").read_text()
    for part in ("758.42", "320.92", "42.08", "& 23 &", "& 12 &", "& 5 &", "another file", r"10\,000", "420", "661"):
        assert part in text
    assert r"0.1 & 10 & 8 & 4000 & 9 & 6 & 2.00 & 13.00 & 12.00 & 6 & 16.0 & 160 \\" in text
    assert r"\HasTableTwotrue" in (tex / "figures.tex").read_text()


def test_environment_prints_requests_per_operation(tex):
    text = (tex / "table_environment.tex").read_text().replace("~", " ").replace(r"\allowbreak{}", "")
    assert "requests per operation, GET & 2" in text and r"(100 \% virtual)" in text and "8 GB" in text


def test_environment_has_one_row_for_a_setting_that_is_an_axis():
    items = {"settings.pool": ["12", "100", "2", "8", "16"], "settings.mode": ["a", "b"]}
    items["deployment.link_bits_per_s"] = ["300000000, 300000000"]
    items["settings.part_size"] = [""]
    rows = [("engine x", item, value, 2) for item, values in items.items() for value in values]
    text = numbers.environment(pd.DataFrame(rows, columns=["group", "item", "value", "points"]))
    lines = [line.replace(r"\allowbreak{}", "").replace("~", " ") for line in text.splitlines() if "&" in line]
    assert r"settings, pool & 5 values from 2 to 100 &  \\" in lines
    assert sum("mode" in line for line in lines) == 2 and sum("pool" in line for line in lines) == 1
    assert any("300 Mbit/s, 300 Mbit/s" in line for line in lines)
    assert any(line.startswith("settings, part size & -- &") for line in lines)


def test_text_counts_several_clients():
    found = [numbers.flags({"clients_most": n})["several_clients"] for n in ("1 client", "4 clients")]
    assert found == [False, True] and not numbers.flags({})["several_clients"]


def test_no_limit_of_amplification_is_a_dash():
    assert [parts.unlimited("max_amplification", v) for v in (0.0, 3.0)] == ["--", "3"]
    assert parts.unlimited("thrift", 0.0) == "0"


@pytest.mark.heavy
def test_sections_without_data_are_left_out(tmp_path):
    for kept, left, failed in (("entries", "raw", ("put", "get")), ("raw", "entries", ("read_entries",))):
        folder = built(tmp_path / kept, failed=failed, sweeps=ONE_EACH)
        sections, figures = ((folder / f"{name}.tex").read_text() for name in ("sections", "figures"))
        assert f"sections/{kept}" in sections and f"sections/{left}" not in sections
        drawn = r"\newcommand{\FigEntries}" in figures
        assert drawn == (r"\HasEntriestrue" in figures), "two fractions at one number of clients are no figure"


@pytest.mark.heavy
def test_names_and_captions_of_figures_load_no_matplotlib(tex):
    script = (
        "import sys; from pathlib import Path; from storelab.core import records\n"
        "from storelab.analysis.figures import catalogue; from storelab.analysis.tables import build\n"
        "folder = Path(sys.argv[1]); plan = records.read_json(folder / 'raw/plan.json')\n"
        "said = [catalogue.caption(f, build.read(folder, f.table)) for f in catalogue.of(plan).values()]\n"
        "print(len(said) > 3, all(said), sorted({'matplotlib', 'seaborn'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", script, str(tex.parent)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "True True []\n"
