"""LaTeX fragments: escaping, formats, templates; sections without data are left out; the prose types no numbers."""

import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from garbage_rows import make_table as garbage_rows
from jinja2 import meta
from launch_rows import make_table as launch_rows
from make_examples import EVENTS, LATENCY, METADATA, ONE_EACH, REFUSED, make
from paths import ROOT
from release_rows import make_table as release_rows
from tex_files import facts

import campaigns
from campaigns import typeset
from storelab.analysis import latex
from storelab.analysis.figures import catalogue, write
from storelab.analysis.latex import TABLES, campaign, parts, templates, values
from storelab.analysis.latex.templates import Tex
from storelab.analysis.tables import build, releases
from storelab.analysis.tables import numbers as build_numbers
from storelab.core.errors import UserError

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
    assert not parts.lost, "each character has a form that the fonts contain"
    assert parts.escape("ŧ漢") == "??"
    assert parts.lost_names() == ["U+0167 LATIN SMALL LETTER T WITH STROKE", "U+6F22 CJK UNIFIED IDEOGRAPH-6F22"]
    assert parts.escape("12 345 MB/s") == r"12\,345~MB/s" and parts.escape("up --links") == "up -{}-links"


def test_numbers_in_the_text():
    cases = (
        *(("88562", "", r"88\,562"), ("1601.6016", "MB/s", "1600~MB/s"), ("1235.0", "MB/s", "1235~MB/s")),
        *(("0.0084321", "s", "0.00843~s"), ("10 MB", "", "10~MB"), ("-3.14159", "", "-3.14")),
    )
    for value, unit, text in cases:
        assert campaign.shown("x", value, unit) == text
    assert campaign.shown("x", "0.6", "", build_numbers.DEFINITIONS) == "0.6", "a constant is not measured"


@pytest.mark.heavy
def test_every_number_of_the_prose_is_there_when_all_has_data(tex, tmp_path):
    """Names in the templates are numbers, or values of another kind."""
    halves = {"workload": "put", "duration": "4 s", "repetitions": 6, "axes": {"front_ends": [1, 2, 3]}}
    sweeps = LATENCY | EVENTS | METADATA | {"refused": REFUSED, "ends": halves}
    timed = built(tmp_path, sweeps=sweeps, invalid=("refused",), repetitions=1, calibrate=True)
    folders = (tex, timed, *(typeset(name) / "tex" for name in ("several", "soak")))
    known = {str(name) for folder in folders for name in build.read(folder.parent, "numbers")["name"]}
    for of_table, rows in (
        (releases.releases_numbers, release_rows),
        (releases.launches_numbers, launch_rows),
        (releases.collections_numbers, garbage_rows),
    ):
        known |= {name for name, *_ in of_table(rows(tmp_path))}
    known |= {"links_known", "links_declared", "link_problem", "second_stores"}
    known |= {f"events_{name}_factor_span" for name in ("scan", "random")}  # of several systems
    sources = values.Sources(tex.parent)
    known |= set(values.campaign_values(sources))
    paths = [PAPER / "paper.tex", *(PAPER / "sections").glob("*.tex")]
    text = "".join(path.read_text() for path in paths)
    assert meta.find_undeclared_variables(templates.environment(PAPER).parse(text)) <= known
    figures = set(re.findall(r"\bfigures\.(\w+)", text))
    assert figures <= set(catalogue.FIGURES) and {"entries", "front_ends"} <= figures
    assert {f"table_{name}" for name in re.findall(r"tables\.(\w+)", text)} <= set(TABLES)
    assert set(re.findall(r"has\.(\w+)", text)) == set(values.facts(sources))


def test_prose_types_no_numbers():
    for path in sorted((PAPER / "sections").glob("*.tex")):
        if path.name == "references.tex":
            continue
        text = re.sub(r"<<.*?>>|<%.*?%>|^%% .*$", "", path.read_text(), flags=re.MULTILINE)
        text = re.sub(r"\\(label|ref|cite|texttt)\{[^}]*\}|\\emph\{Using S3[^}]*\}|%.*", "", text)
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
    sources = values.Sources(campaigns.built("one_each"))
    sources["drawn"] = drawn
    found = values.campaign_values(sources)
    text = found["lead"] + "".join(found["figures"][name] for name in names)
    assert values.lead_figure(drawn) == first
    for name in names:
        assert found["figures"][name]
        assert text.count(f"{{fig:{name}}}") == 1 and (f"\\Lead{{{name}}}" in text) == (name == first)
    assert not found["figures"]["volume_of_tomorrow"]


def rendered(folder: Path, text: str, **values) -> str:
    (folder / "x.tex").write_text(text)
    return templates.render(folder, "x.tex", values)


def test_templates_escape_text_and_drop_what_is_absent(tmp_path):
    assert rendered(tmp_path, "<< a >> << b >>", a="5 % & more", b=Tex(r"\emph{x}")) == r"5~\% \& more \emph{x}"
    text = "One.\n%% if n\nThere are << n|counted('run') >>.\n%% endif\n\nTwo<% if m %>, or << m >><% endif %>.\n"
    assert rendered(tmp_path, text) == "One.\n\nTwo.\n"
    assert rendered(tmp_path, text, n=Tex("0", False), m=Tex("3")) == "One.\n\nTwo, or 3.\n"
    assert rendered(tmp_path, text, n=Tex("2")) == "One.\nThere are 2~runs.\n\nTwo.\n"
    assert rendered(tmp_path, '<< ["a_b", x]|join(", ") >>', x=Tex(r"\_")) == r"a\_b, \_"
    joined = "<< ['a']|figures_with('is', 'are') >>; << ['a', 'b']|figures_with('is', 'are') >>"
    assert rendered(tmp_path, joined) == r"Figure~\ref{fig:a} is; Figures~\ref{fig:a} and \ref{fig:b} are"


def test_mistakes_in_templates_name_file_and_line(tmp_path):
    for text, message in (
        (
            "One.\n%% if a\n%% endif\n<< gone >>\n",
            r"x\.tex:4: 'gone' is undefined; put the text that needs this value between",
        ),
        ("One.\n%% if a\nTwo.\n", r"x\.tex:3: Unexpected end of template"),
        ("One.\n%% include 'nowhere.tex'\n", r"nowhere\.tex: does not exist; name the folder of the templates"),
    ):
        with pytest.raises(UserError, match=message):
            rendered(tmp_path, text)


def test_failed_points_are_listed_escaped(tex):
    text = (tex / "table_failed.tex").read_text()
    assert r"50~\% of \_" in text and r"\{clients\}" in text


def test_reads_are_next_to_published_ones(tex):
    text = (tex / "table_two.tex").read_text()
    for part in ("758.42", "320.92", "42.08", "& 23 &", "& 12 &", "& 5 &", "another file", r"10\,000", "420", "661"):
        assert part in text
    assert r"0.1 & 10 & 8 & 4000 & 9 & 6 & 2.00 & 13.00 & 12.00 & 6 & 16.0 & 160 \\" in text
    assert r"Table~\ref{tab:two} follows" in (tex / "paper.tex").read_text()


def test_environment_prints_requests_per_operation(tex):
    text = (tex / "table_environment.tex").read_text().replace("~", " ").replace(r"\allowbreak{}", "")
    assert "requests per operation, GET & 2" in text and r"(100 \% virtual)" in text and "8 GB" in text


def test_environment_has_one_row_for_a_setting_that_is_an_axis():
    items = {"settings.pool": ["12", "100", "2", "8", "16"], "settings.mode": ["a", "b"]}
    items["deployment.link_bits_per_s"] = ["300000000, 300000000"]
    items["settings.part_size"] = [""]
    rows = [("engine x", item, value, 2) for item, values in items.items() for value in values]
    text = campaign.environment(pd.DataFrame(rows, columns=["group", "item", "value", "points"]))
    lines = [line.replace(r"\allowbreak{}", "").replace("~", " ") for line in text.splitlines() if "&" in line]
    assert r"settings, pool & 5 values from 2 to 100 &  \\" in lines
    assert sum("mode" in line for line in lines) == 2 and sum("pool" in line for line in lines) == 1
    assert any("300 Mbit/s, 300 Mbit/s" in line for line in lines)
    assert any(line.startswith("settings, part size & -- &") for line in lines)


def test_text_counts_several_clients():
    numbers = [pd.DataFrame({"name": ["clients_most"], "value": [n]}) for n in ("1 client", "4 clients")]
    found = [facts(numbers=table)["several_clients"] for table in (*numbers, numbers[0][:0])]
    assert found == [False, True, False]


def test_no_limit_of_amplification_is_a_dash():
    assert [parts.unlimited("max_amplification", v) for v in (0.0, 3.0)] == ["--", "3"]
    assert parts.unlimited("thrift", 0.0) == "0"


@pytest.mark.heavy
def test_sections_without_data_are_left_out(tmp_path):
    for kept, left, failed in (("entries", "raw", ("put", "get")), ("raw", "entries", ("read_entries",))):
        folder = built(tmp_path / kept, failed=failed, sweeps=ONE_EACH)
        text = (folder / "paper.tex").read_text()
        assert f"\\label{{sec:{kept}}}" in text and f"\\label{{sec:{left}}}" not in text
        index = (folder.parent / "figures" / "index.json").read_text()
        assert ("{fig:entries}" in text) == ('"entries"' in index.partition("left_out")[0])


@pytest.mark.heavy
def test_names_and_captions_of_figures_load_no_matplotlib(tex):
    script = (
        "import sys; from pathlib import Path; from storelab.core import records\n"
        "from storelab.analysis.figures import catalogue; from storelab.analysis.tables import build\n"
        "folder = Path(sys.argv[1]); plan = records.read_json(folder / 'raw/plan.json')\n"
        "said = [catalogue.caption(f, build.read(folder, f.table)) for f in catalogue.figures_of_plan(plan).values()]\n"
        "print(len(said) > 3, all(said), sorted({'matplotlib', 'seaborn'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", script, str(tex.parent)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "True True []\n"
