"""One paper from several campaigns: findings, methods, shown results, codes, and the source of each number."""

import csv
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner
from paths import ROOT

import campaigns
from storelab.analysis import papers
from storelab.analysis.figures import catalogue, panels
from storelab.analysis.latex import parts
from storelab.analysis.papers import across, findings, fragments, members, origin, write
from storelab.analysis.parts import derived
from storelab.analysis.records import published
from storelab.analysis.statistics import ratios
from storelab.analysis.tables import build
from storelab.cli import analysis, workflow
from storelab.core import records
from storelab.core.errors import UserError

PROSE = ROOT / "paper"


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    """Return a folder of results with three campaigns, and the paper of two of them."""
    folder = tmp_path_factory.mktemp("results")
    for name in ("broad", "example", "several"):
        (folder / name).symlink_to(campaigns.typeset(name))
    write.build([folder / "broad", folder / "example"], folder / "papers" / "broad+example")
    return folder


@pytest.fixture
def paper(results) -> Path:
    return results / "papers" / "broad+example"


def renamed(parent: Path, name: str, campaign: str = "example") -> Path:
    """Copy a campaign under another name into `parent / name`; of its records only plan and checksums."""
    source, folder = campaigns.typeset(campaign), parent / name
    plan = records.read_json(source / "raw" / "plan.json")
    records.write_summed(folder / "raw" / "plan.json", plan | {"campaign": plan["campaign"] | {"name": name}})
    shutil.copy(source / "raw" / "SHA256SUMS", folder / "raw")
    for kind in ("tables", "tex", "figures"):
        shutil.copytree(source / kind, folder / kind)
    return folder


def tex(paper: Path) -> str:
    return (paper / "tex" / "paper.tex").read_text()


def rows_of(path: Path) -> list[dict]:
    with path.open(newline="") as f:
        return list(csv.DictReader(f))


# --- findings -------------------------------------------------------------------------------------


class Judging:
    """A campaign that has only claims: (claim, system, verdict, value, query)."""

    def __init__(self, name: str, *claims: tuple):
        self.name, self.sums = name, f"sums of {name}"
        empty = dict.fromkeys(("published", "published_unit", "low", "high", "unit", "points", "reason"), float("nan"))
        rows = pd.DataFrame(claims, columns=["claim", "system", "verdict", "value", "query"])
        statement = rows["claim"] + " holds."
        self._claims = rows.assign(statement=statement, source="a report", expected="at least 2", **empty)

    def table(self, name: str) -> pd.DataFrame:
        assert name == "claims"
        return self._claims


NOT, YES, NO, OPEN = "not measured here", "confirmed", "refuted", "undecided"
Q = "throughput.csv: all rows; rate along clients"


def test_each_campaign_judges_in_its_own_column():
    a = Judging("a", ("more", "alpha", YES, 3.0, Q), ("less", float("nan"), NOT, float("nan"), Q))
    b = Judging("b", ("more", "beta", NO, 1.0, Q), ("less", float("nan"), NOT, float("nan"), Q))
    found = findings.joined([a, b])
    assert [(f.claim, [(j.campaign, j.verdict) for j in f.judged]) for f in found] == [
        ("more", [("a", YES), ("b", NO)]),
        ("less", []),
    ]
    page = findings.first_page(found, ["a", "b"])
    assert r"more \emph{(a report)} & -- & \textbf{C} & \textbf{R} \\" in page and "any of them: less." in page
    shown = " ".join(findings.sentences(found, "raw"))
    assert "(Expected: at least 2.) This is confirmed" in shown
    assert re.search(r"is confirmed in \\texttt\{a\} \(alpha: 3 .*\); it is refuted in \\texttt\{b\} \(beta: 1 ", shown)
    assert "contradict each other; Table~\\ref{tab:differences}" in shown and "2.0" not in shown and ": 2 " not in shown
    assert findings.totals(found) == {"findings": 2, "measured": 1, YES: 0, NO: 0, "both": 1, OPEN: 0}


def test_verdicts_of_several_systems_are_counted():
    a = Judging("a", *(("more", s, v, 1.0, Q) for s, v in zip("wxyz", (YES, YES, NO, OPEN), strict=True)))
    (found,) = findings.joined([a])
    assert findings.counted(found.judged) == r"2~\textbf{C}, 1~\textbf{R}, 1~?"
    assert found.contradicted and "The systems differ." in " ".join(findings.sentences([found], "raw"))


def test_finding_of_the_text_has_its_verdicts_and_decided_numbers():
    verdicts = {"more": (YES, OPEN, YES), "less": (NO, OPEN), "both": (YES, NO), "open": (OPEN,)}
    rows = [(claim, f"s{i}", v, 2.0 + i, Q) for claim, vs in verdicts.items() for i, v in enumerate(vs)]
    known = {f.claim: f for f in findings.joined([Judging("a", *rows)])}
    assert {name: (f.confirmed, f.refuted) for name, f in known.items()} == {
        "more": (True, False),
        "less": (False, True),
        "both": (False, False),
        "open": (False, False),
    }
    assert re.fullmatch(r"s0: 2 \\Code\{\w+\}; s2: 4 \\Code\{\w+\}", known["more"].numbers)
    assert known["both"].numbers.present and not known["open"].numbers.present


def test_same_claim_with_another_rule_is_another_finding():
    a = Judging("a", ("more", "alpha", YES, 3.0, Q))
    b = Judging("b", ("more", "alpha", NO, 1.0, "throughput.csv: clients 1; rate along clients"))
    assert [[j.campaign for j in f.judged] for f in findings.joined([a, b])] == [["a"], ["b"]]


def test_undecided_claim_has_no_number():
    a = Judging("a", *(("more", s, OPEN, 1.7, Q) for s in "xy"))
    (sentence,) = findings.sentences(findings.joined([a]), "raw")
    assert sentence == r"Measured, but undecided: \emph{more}, in \texttt{a} (2 systems)."
    page = findings.first_page(findings.joined([a]), ["a"])
    assert "undecided in all of them: more." in page and "tabular" not in page


def test_finding_is_discussed_where_its_table_is():
    sections = {section.name for section in fragments.SECTIONS}
    subjects = {"throughput": "raw", "latency": "raw", "sparse": "patterns", "events": "patterns", "roles": "since"}
    for table, subject in (subjects | {"capabilities": "systems", "soak_of_old": "raw"}).items():
        (found,) = findings.joined([Judging("a", ("more", "x", YES, 1.0, f"{table}.csv: all rows"))])
        assert found.subject == subject and subject in sections, table


def test_totals_count_findings_and_not_systems():
    judged = (("p", "x", YES), ("p", "y", OPEN), ("q", "x", NO), ("r", "x", OPEN))
    a = Judging("a", *((*words, 1.0, Q) for words in judged))
    assert findings.totals(findings.joined([a])) == {"findings": 3, "measured": 3, YES: 1, NO: 1, "both": 0, OPEN: 1}


# --- method ---------------------------------------------------------------------------------------


def test_method_flags_what_differs_and_nothing_else(tmp_path):
    one, two = (renamed(tmp_path, name) for name in ("one", "two"))
    environment = two / "tables" / "environment.csv"
    table = pd.read_csv(environment, dtype=str)
    table.loc[table["item"] == "cores", "value"] = "64"
    table.to_csv(environment, index=False)
    derived.write_sums(two, ["environment"])
    plan = records.read_json(two / "raw" / "plan.json")
    records.write_summed(two / "raw" / "plan.json", plan | {"campaign": plan["campaign"] | {"scale": 0.5}})
    both = members.gathered([one, two])
    found = across.difference_table(both)
    assert list(found.loc[found["differs"], "item"]) == ["cores", "scale"]
    assert found.set_index("item").loc["cores", ["one", "two"]].tolist() == ["2", "64"]
    assert across.differing(found, "one", "two") == ["cores", "scale"]
    block, alike = across.latex(found, ["one", "two"], "ABCDEFG")
    assert "cores & 2 & 64" in block.text and "processor" not in block.text and "\\Code{ABCDEFG}" in block.text
    assert "processor (" in alike and "cores" not in alike


@pytest.mark.heavy
def test_methods_of_sealed_campaigns_differ_in_much():
    both = [campaigns.typeset(name) for name in ("reference", "throughput2015")]
    found = across.difference_table(members.gathered(both)).set_index("item")
    row = found.loc["repetitions"]
    assert (row["differs"], row["reference"], row["throughput2015"]) == (True, "1 to 6", "4")
    assert found.loc["calibration", "throughput2015"] == found.loc["calibration", "reference"] == "measured"
    assert found.loc["hosts of the clients", "throughput2015"] == "1 to 8"
    assert found.loc["stores", "throughput2015"] == "ceph 16.2.15, seaweedfs 4.48", (
        "the null server of the calibration does not count"
    )


def test_long_table_of_differences_spans_pages():
    found = pd.DataFrame([{"item": f"i{i}", "differs": True, "a": "x" * 60, "b": str(i)} for i in range(25)])
    block, _ = across.latex(found, ["a", "b"], "ABCDEFG")
    assert not block.long and "widetable" in block.text
    more = found.assign(**dict.fromkeys("cde", "x" * 60))
    block, _ = across.latex(more, list("abcde"), "ABCDEFG")
    assert block.long and "longtable" in block.text and "tab:differences" in block.text


def test_differences_of_many_campaigns_are_in_rows():
    kernel = {"item": "kernel", "differs": True, **dict.fromkeys("acdef", "6.1"), "b": "6.2"}
    found = pd.DataFrame([kernel, {"item": "cores", "differs": True, **dict.fromkeys("abcde", "2"), "f": "64"}])
    block, _ = across.latex(found, list("abcdef"), "ABCDEFG")
    named = {line.replace(r"\allowbreak{}", "").replace(r"\texttt", "") for line in block.text.splitlines()}
    rows = {r"kernel & 6.1 & {a}, {c}, {d}, {e}, {f} \\", r" & 6.2 & {b} \\"}
    assert block.long and rows | {r"cores & 2 & {a}, {b}, {c}, {d}, {e} \\", r" & 64 & {f} \\"} <= named


def test_undecided_ratio_of_a_pair_has_its_reason():
    rows = [
        ["one", "two", "speed", 3, 1.1, 0.9, 1.3, ratios.UNDECIDED, "few runs", ""],
        ["one", "two", "speed", 3, 1.5, 1.3, 1.7, ratios.FASTER, None, "kernel"],
    ]
    undecided, faster = across.comparison_rows(pd.DataFrame(rows, columns=across.COMPARISON_COLUMNS))
    assert (undecided["is_decided"], undecided["reason"]) == (False, "few runs")
    assert (faster["is_decided"], faster["reason"], faster["differs"]) == (True, "", "kernel")


# --- what is shown --------------------------------------------------------------------------------


def test_figure_of_two_single_points_is_left_out(results):
    member = members.gathered([results / "example"])[0]
    figure = catalogue.FIGURES["throughput_download"]
    every = member.table("throughput")
    chosen = (every["workload"] == "get") & (every["object_size_bytes"] == 10**7) & (every["front_ends"] == 1)
    rows = every[chosen]
    assert len(rows) == 3 and rows["clients"].nunique() == 3

    def enough(table: pd.DataFrame) -> bool:
        shown = panels.layout_of(figure, table)
        return shown is not None and fragments.enough(figure, shown.panels)

    assert enough(rows) and not enough(rows.iloc[:2])
    assert not enough(rows.assign(clients=2, workers=[1, 2, 3])), "three curves at one place of the axis"


def test_figures_of_the_text_are_kept_and_others_go(results, tmp_path, monkeypatch):
    figures = tmp_path / "figures"
    write.build([results / "broad"], tmp_path)
    shown = set(re.findall(r"\\(?:Figure|Lead)\{([^}]*\.pdf)\}", tex(tmp_path)))
    assert shown == {p.name for p in figures.iterdir()} and "broad-entries.pdf" in shown
    monkeypatch.setattr(fragments, "carries", lambda member, name: name != "entries")
    (figures / "of-the-user.pdf").write_bytes(b"x")
    write.build([results / "broad"], tmp_path)
    assert (figures / "of-the-user.pdf").read_bytes() == b"x"
    text = tex(tmp_path)
    assert "are omitted, because they show no more" in text
    assert r"entries of \texttt{broad} (\texttt{sparse.\allowbreak{}csv})" in text
    assert "fig:broad:entries" not in text and not (figures / "broad-entries.pdf").exists()
    assert "fig:broad:phases" in text and (figures / "broad-phases.pdf").exists()


def test_own_text_places_numbers_tables_and_figures(results, tmp_path):
    text = """\\author{x} << of["broad"].numbers.points_measured >> points.
<< of["broad"].figures.entries >>
<< of["broad"].tables.sparse >>
<< of["broad"].tables.throughput >>
The appendix.
%% for block in placed_tables
<< block >>
%% endfor
<< of["broad"].figures.no_such >>
<< judged("tab:mine", "Some findings.", "few_entries_move_less", "no_operation_fails") >>
"""
    for name in write.TEMPLATES.values():
        (tmp_path / name).write_text(text)
    write.build([results / "broad"], tmp_path / "out", tmp_path)
    made, numbers = tex(tmp_path / "out"), rows_of(results / "broad" / "tables" / "numbers.csv")
    number = next(r["value"] for r in numbers if r["name"] == "points_measured")
    assert f"{number}~points points." in made or f"{number} points." in made
    text, appendix = made.split("The appendix.")
    assert r"\begin{longtable}" not in text and r"\begin{longtable}" in appendix
    assert r"\label{tab:broad:sparse}" in text and r"\Figure{broad-entries.pdf}" in made and "no_such" not in made
    assert [p.name for p in (tmp_path / "out" / "figures").iterdir()] == ["broad-entries.pdf"]
    listed = {r["name"] for r in rows_of(tmp_path / "out" / "tables" / "codes.csv")}
    assert {"entries", "table_sparse"} <= listed
    claims = rows_of(results / "broad" / "tables" / "claims.csv")
    first = next(r for r in claims if r["claim"] == "few_entries_move_less")
    assert r"\label{tab:mine}" in made and parts.escape(first["statement"]) in made


def test_own_text_names_the_campaign_file_and_shows_the_first_of_several(results, tmp_path):
    mine = renamed(tmp_path, "mine", "broad")
    plan = records.read_json(mine / "raw" / "plan.json")
    records.write_summed(mine / "raw" / "plan.json", plan | {"file": "broad"})
    for name in write.TEMPLATES.values():
        (tmp_path / name).write_text('\\author{x} Shown: << of["broad"].name >>.')
    for folders, shown in (([mine], "mine"), ([mine, results / "broad"], "mine"), ([results / "broad", mine], "broad")):
        out = tmp_path / "papers" / "+".join(f.name for f in folders)
        write.build(folders, out, tmp_path)
        assert f"Shown: {shown}." in tex(out)


def test_pictures_are_not_written_through_links(results, tmp_path):
    write.build([results / "broad"], tmp_path / "out")
    figures = tmp_path / "out/figures"
    first, second = sorted(figures.iterdir())[:2]
    (tmp_path / "precious").write_text("text")
    first.unlink()
    first.symlink_to(tmp_path / "precious")
    (tmp_path / "backup").hardlink_to(second)
    second.chmod(0o644)
    second.write_bytes(b"of the backup")
    write.build([results / "broad"], tmp_path / "out")
    assert (tmp_path / "precious").read_text() == "text" and (tmp_path / "backup").read_bytes() == b"of the backup"
    assert not first.is_symlink() and second.read_bytes() != b"of the backup"


def test_folder_of_a_campaign_is_no_place_for_a_joined_paper(results, tmp_path):
    (tmp_path / "raw").mkdir()
    with pytest.raises(UserError, match=r"is the folder of a campaign: it has .*raw; choose a new folder"):
        write.build([results / "broad"], tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["raw"]


@pytest.mark.parametrize("name", ["figures/drawn.pdf", "tex/paper.tex", "tables/points.csv"])
def test_folder_of_something_else_is_refused(results, tmp_path, name):
    foreign = tmp_path / name
    foreign.parent.mkdir()
    foreign.write_bytes(b"x")
    message = f"has files that do not belong to a joined paper, such as .*{name}; choose a new folder"
    with pytest.raises(UserError, match=message):
        write.build([results / "broad"], tmp_path)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == [foreign] and foreign.read_bytes() == b"x"


def test_table_has_campaign_and_code_in_its_caption():
    given = "\\begin{table}[htbp]\n\\caption{All \\emph{of} it.}\\label{tab:x}\nTable~\\ref{tab:y}\\end{table}\n"
    block = fragments.adopted(given, "a.b", "table_x", "ABCDEFG")
    assert "\\caption{\\Of{a.b}All \\emph{of} it. \\Code{ABCDEFG}}\\label{tab:a.b:x}" in block.text and not block.long
    assert "\\begin{widetable}" in block.text and "\\ref{tab:a.b:y}" in block.text
    resolved = fragments.resolved(block.text)
    assert "\\ref" not in resolved and "a table of the campaign's own paper\\end{widetable}" in resolved


def test_table_without_caption_gets_one():
    """The template of a campaign's own paper has the caption of these; long ones span pages."""
    rows = [f"r{i} & {i} \\\\" for i in range(60)]
    texts = (parts.tex_table("lr", ["A", "B"], rows[:n], most=parts.PAGE) for n in (5, 60))
    short, long = (fragments.adopted(text, "a", "table_best", "ABCDEFG") for text in texts)
    bare = fragments.adopted(parts.tex_table("lr", ["A", "B"], rows[:5], caption=""), "a", "table_best", "ABCDEFG")
    for block in (short, long, bare):
        assert block.text.count("\\caption{\\Of{a}The highest median") == block.text.count("\\label{tab:a:best}") == 1
        assert parts.CAPTION not in block.text and block.named == "Table~\\ref{tab:a:best}"
    assert [b.long for b in (short, long, bare)] == [False, True, False]
    assert "\\begin{widetable}" in short.text and "\\begin{longtable}" in long.text and "r59 & 59" in long.text


def test_every_figure_and_table_has_one_place():
    figures = {*catalogue.FIGURES, "timeline_x", "along_clients", "new_one"}
    tables = {f"table_{n}" for n in ("best", "claims", "capabilities", "of_tomorrow")}
    every = [part for section in fragments.sections(figures, tables) for part in section.parts]
    shown = [n for part in every for n in fragments.chosen(part.figures, figures)]
    assert sorted(shown) == sorted(figures)
    held = [n for part in every for n in fragments.chosen(part.tables, tables)]
    assert sorted(held) == ["table_best", "table_of_tomorrow"], "the others are in the appendix or elsewhere"


def test_sections_labels_and_references_of_the_paper(paper):
    text = tex(paper)
    sections = re.findall(r"\\section\{(.*?)\}", text)
    expected = ["The systems", "Raw data performance", "Access patterns with ROOT", "Then and now", "Conclusions"]
    expected = ["Introduction", *expected, "Differences in method", "Evidence"]
    assert [name for name in sections if name != "Later developments"] == expected
    every = text.split(r"\begin{document}")[1]
    labels = re.findall(r"\\label\{([^}]*)\}", every) + re.findall(r"\}\{(fig:[^}]*)\}$", every, flags=re.MULTILINE)
    assert "\\ref{fig:broad:entries}" in every and "a table of the campaign's own paper" not in every
    assert len(labels) == len(set(labels)) and set(re.findall(r"\\ref\{([^}]*)\}", every)) <= set(labels)
    assert "<<" not in every and "%%" not in every


def test_same_records_make_same_files(results, paper, tmp_path):
    write.build([results / "broad", results / "example"], tmp_path)
    files = sorted(p.relative_to(paper) for p in paper.rglob("*.*"))
    assert len(files) > 10
    assert all((paper / f).read_bytes() == (tmp_path / f).read_bytes() for f in files)
    assert str(tmp_path) not in tex(tmp_path) and str(results) not in tex(tmp_path)


def test_paper_of_the_evaluations_has_a_table_for_each_of_its_findings():
    texts = {path: path.read_text() for path in (PROSE / "evaluations").glob("*.tex")}
    campaigns = set(re.findall(r'of\["(\w+)"\]', " ".join(texts.values())))
    shown = [
        name
        for text in texts.values()
        for call in re.findall(r"judged\((.*?)\) >>", text, re.DOTALL)
        for name in re.findall(r'"(\w+)"', call)
    ]
    judged = {name for name, claim in published.findings().items() if campaigns & {*claim["campaigns"]}}
    assert len(campaigns) > 10 and len(shown) == len(set(shown)) and judged <= {*shown}, judged - {*shown}


def test_joined_prose_has_no_numbers():
    for path in (PROSE / "joined").glob("*.tex"):
        if path.name in ("preamble.tex", "body.tex"):
            continue
        text = re.sub(r"<<.*?>>|<%.*?%>|^%% .*$", "", path.read_text(), flags=re.MULTILINE)
        text = re.sub(r"\\(label|ref|cite|texttt)\{[^}]*\}|%.*", "", text)
        assert not re.findall(r"(?<![A-Za-z])\d+", text), path.name


def test_first_page_has_results_of_each_campaign_and_one_figure(paper):
    shown = tex(paper).split(r"\begin{abstract}")[1].split(r"\end{abstract}")[0]
    for name in ("broad", "example"):
        assert re.search(rf"texttt.{name}.: .*?alpha.*?\d.*?n~=~\d.*?\\Code", shown), name
    assert tex(paper).count("\n\\Lead{") == 1 and shown.count("?") == 1


# --- mistakes -------------------------------------------------------------------------------------


def test_campaigns_that_cannot_be_joined_are_refused(results, tmp_path):
    here = results / "example"
    other = renamed(tmp_path / "elsewhere", "example")
    later = renamed(tmp_path, "later")
    plan = records.read_json(later / "raw" / "plan.json")
    empty = renamed(tmp_path, "empty")
    points = pd.read_csv(empty / "tables" / "points.csv")
    points.assign(state="failed").to_csv(empty / "tables" / "points.csv", index=False)
    derived.write_sums(empty, ["points"])

    def refusal(second: Path, **change) -> str:
        records.write_summed(later / "raw" / "plan.json", plan | change)
        with pytest.raises(UserError) as error:
            members.gathered([here, second])
        return str(error.value)

    assert refusal(here).startswith("campaign example: is named twice")
    assert all(str(folder) in refusal(other) for folder in (results, tmp_path / "elsewhere"))
    assert "has schema 0, but the plan of example has schema 1" in refusal(later, schema=0)
    assert "has schema 9, which this version of storelab does not know" in refusal(later, schema=9)
    assert "this is not a measured campaign" in refusal(tmp_path / "nowhere")
    assert "has no records" in refusal(empty)
    (later / "raw" / "SHA256SUMS").unlink()
    assert "was not collected" in refusal(later)


def test_folder_name_of_too_many_campaigns_is_refused():
    assert papers.place(Path("r"), ["a", "b.c"]) == Path("r/papers/a+b.c")
    with pytest.raises(UserError, match=r"the name of the folder for 5 campaigns would have 304 bytes, more than 255"):
        papers.place(Path("r"), ["x" * 60] * 5)


@pytest.fixture
def at_root(monkeypatch):
    monkeypatch.chdir(ROOT)


def joined(campaign: str, **more):
    return workflow.prepare({"campaign": campaign, **more}, verifying=False)


def test_rules_take_each_campaign_and_the_paper(at_root):
    flow = joined("reference probes")
    assert flow.campaign_dir == "results/papers/reference+probes" and flow.pdf == "paper.pdf" and not flow.measuring
    assert list(flow.campaigns) == ["results/reference", "results/probes"]
    assert "results/probes/tables/points.csv" in flow.tables and "results/reference/tables/points.csv" in flow.tables
    assert "results/probes/tex/paper.tex" in flow.indexes
    assert re.fullmatch(flow.pattern, "results/probes") and not re.fullmatch(flow.pattern, "results/probesx")
    assert flow.command == "storelab" and set(flow.raw_inputs) > set(flow.campaigns["results/probes"].raw_inputs)
    alone = joined("reference")
    assert flow.kinds == "--kind pdf" and alone.kinds == "--kind pdf --kind png"
    assert list(alone.campaigns) == ["results/reference"] and not alone.members and alone.pdf == "paper.pdf"


def test_records_with_another_name_need_no_campaign_file(at_root):
    assert not (ROOT / "campaigns" / "compared.yaml").exists()
    assert list(joined("compared reference").campaigns) == ["results/compared", "results/reference"]
    assert list(joined("compared").campaigns) == ["results/compared"]
    with pytest.raises(UserError, match="compared: has no file in campaigns/"):
        joined("compared", measure=True)


def test_conference_layout_makes_another_file(at_root):
    assert joined("reference probes", layout="conference").pdf == "conference.pdf"
    one = joined("reference", layout="conference")
    assert (one.campaign_dir, one.pdf, one.layout) == ("results/papers/reference", "conference.pdf", "conference")
    with pytest.raises(UserError, match="layout"):
        joined("reference probes", layout="poster")


def test_wrong_names_are_refused_before_anything_is_made(at_root):
    with pytest.raises(UserError, match="campaign reference: is named twice"):
        joined("reference probes reference")
    with pytest.raises(UserError, match="several campaigns cannot be measured at the same time"):
        joined("reference probes", measure=True)
    with pytest.raises(UserError, match="did you mean 'probes'"):
        joined("reference probs")
    with pytest.raises(UserError, match="campaign smoke: has no records"):
        joined("reference smoke")


def test_joined_paper_without_one_file_is_made_again(at_root, tmp_path, monkeypatch):
    folder = tmp_path / "papers" / "reference+probes"
    for name in ("reference", "probes"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "raw").symlink_to(ROOT / "results" / name / "raw")
    (folder / "tex").mkdir(parents=True)
    for name in write.TEMPLATES:
        (folder / "tex" / f"{name}.tex").write_bytes(derived.tex(""))
    joined("reference probes", results=str(tmp_path))
    assert (folder / "tex" / "paper.tex").exists()
    (folder / "tex" / "conference.tex").unlink()
    joined("reference probes", results=str(tmp_path))
    assert not (folder / "tex" / "paper.tex").exists()


# --- where it comes from --------------------------------------------------------------------------


def explained(what: str, *more: str) -> str:
    """Return what `storelab explain` prints."""
    run = CliRunner().invoke(analysis.explain, [what, *more], obj=None, catch_exceptions=True)
    if run.exception and not isinstance(run.exception, SystemExit):
        raise run.exception
    return run.output


@pytest.fixture
def work(results, tmp_path, monkeypatch) -> Path:
    """Work in a folder that has these results as `results`."""
    (tmp_path / "results").symlink_to(results)
    monkeypatch.chdir(tmp_path)
    return results


def test_figure_is_explained_by_rows_points_and_versions(work):
    text = explained("results/broad/figures/entries.pdf", "--all")
    wanted = {r["key"] for r in rows_of(work / "broad/tables/points.csv") if r["workload"] == "read_entries"}
    assert set(re.findall(r"^ +((?:alpha|beta)/\S+)$", text, flags=re.MULTILINE)) == wanted
    assert f"points    {len(wanted)}:" in text
    rows = rows_of(work / "broad/tables/sparse.csv")
    places = [i for i, row in enumerate(rows) if row["workload"] == "read_entries"]
    assert f"results/broad/tables/sparse.csv: {origin.Rows('x', places, len(rows)).lines}" in text
    assert "0" * 40 in text and "storelab 0.1.0" in text and "alpha 4.48" in text
    assert text.startswith(origin.PaperItem(members.gathered([work / "broad"])[0], origin.FIGURE, "entries").code)


def test_number_is_explained_by_its_row_and_points(work):
    rows = rows_of(work / "example/tables/throughput.csv")
    value = next(r for r in rows_of(work / "example/tables/numbers.csv") if r["name"] == "best_throughput_download")
    highest = f"{float(value['value']):.9g}"
    (place,) = (i for i, r in enumerate(rows) if r["throughput_median_mb_per_s"] == highest)
    axes = ("store", "workload", "engine", "object_size_bytes", "clients", "workers", "front_ends", "buckets")
    every = rows_of(work / "example/tables/points.csv")
    points = [r["key"] for r in every if all(r[c] == rows[place][c] for c in axes)]
    text = explained("best_throughput_download", "--campaign-dir", "results/example", "--all")
    assert f"throughput.csv: line {place + 2} of {len(rows) + 1}" in text
    assert f"value     {value['value']} MB/s" in text
    assert len(points) == 3 and all(key in text for key in points) and "points    3:" in text
    text = explained("seed", "--campaign-dir", "results/example")
    assert "from plan.json" in text and "points    none" in text


def test_every_code_of_a_paper_is_explained(paper, work):
    listed = rows_of(paper / "tables" / "codes.csv")
    used = set(re.findall(r"\\Code\{(\w+)\}", tex(paper)))
    assert used == {r["code"] for r in listed} and len(listed) == len(used) > 20
    assert used == set(re.findall(r"\\hypertarget\{code:(\w+)\}", tex(paper)))
    kinds = {r["kind"]: r for r in listed}
    assert {"figure", "claim", "table of the paper", "table of the joined paper"} <= set(kinds)
    for row in kinds.values():
        text = explained(row["code"].lower())
        assert row["code"] in text and "rows " in text and str(row["points"]) in text
    claim = kinds["claim"]
    claims = rows_of(work / claim["campaign"] / "tables/claims.csv")
    named = next(r for r in claims if claim["name"] == f"{r['claim']}, {r['system']}")
    assert len(named["points"].split()) == int(claim["points"]) and named["statement"] in explained(claim["code"])


def test_codes_are_unique_and_change_with_the_records(results, tmp_path):
    codes = [t.code for t in origin.items(members.gathered([results / "broad"])[0])]
    assert len(codes) == len(set(codes)) > 250 and all(origin.is_code(code) for code in codes)
    copy = renamed(tmp_path, "copy", "broad")
    (copy / "raw" / "SHA256SUMS").write_text("another\n")
    derived.write_sums(copy, build.NAMES)
    assert not {t.code for t in origin.items(members.gathered([copy])[0])} & set(codes)


def test_curve_of_scaling_depends_on_its_whole_sweep(results):
    member = members.gathered([results / "broad"])[0]
    table, points = member.table("scaling"), member.table("points")
    curve = (table["axis"] == "clients") & (table["workload"] == "get") & (table["object_size_bytes"] == 10**7)
    row = table[curve & (table["store"] == "alpha") & (table["front_ends"] == 2)]
    assert len(row) == 1
    keys = origin.points_of(member, row, "scaling")
    wanted = points[(points["store"] == "alpha") & (points["workload"] == "get") & (points["front_ends"] == 2)]
    wanted = wanted[wanted["object_size_bytes"] == 10**7]
    assert keys == set(wanted["key"]) and wanted["clients"].nunique() == 3


def test_lines_are_those_of_an_editor():
    whole = (((0, 1, 2), 3, "all 3 rows"), ((0,), 1, "the only row"))
    parts = (((0,), 5, "line 2 of 6"), ((0, 1, 2, 7), 9, "lines 2 to 4 and 9 of 10"), ((), 5, "lines none of 6"))
    for places, total, text in whole + parts:
        assert origin.Rows("x", places, total).lines == text


def test_unknown_things_are_refused_with_a_suggestion(work):
    there = ("--campaign-dir", "results/broad")
    for words, message in (
        (("7K2MXQ4",), "7K2MXQ4 is not a code in 3 campaigns below results"),
        (("best_throughput_downlod", *there), "did you mean 'best_throughput_download'?"),
        (("zzz", *there), "a name in results/broad"),
        (("results/broad/figures/entris.pdf",), "did you mean 'entries'"),
    ):
        with pytest.raises(UserError, match=re.escape(message)):
            explained(*words)


def test_join_takes_names_and_an_output_folder(work, tmp_path):
    run = CliRunner().invoke(analysis.join, ["example", "--output", str(tmp_path / "p"), "--paper-dir", str(PROSE)])
    assert run.exit_code == 0 and "files in" in run.output and (tmp_path / "p" / "tex" / "paper.tex").exists()


def test_versions_of_points_are_listed_once(tmp_path):
    runs: dict[str, dict] = {"c": {"environment": None, "store": {"version": "9"}}}
    for key, commit, engine, version in (("a", "c1", "obstore", None), ("b", "c2", "s5cmd", "2.3")):
        runs[key] = {"environment": {"git_commit": commit, "storelab": "0.1"}}
        runs[key] |= {"store": {"name": "alpha", "version": "3"}, "engine": {"name": engine, "version": version}}
    for key, run in runs.items():
        records.write_json(tmp_path / "raw" / key / "run.json", run)
    member = members.Member(tmp_path, {})
    found = {"commit": ["c1", "c2"], "storelab": ["0.1"], "versions": ["alpha 3", "obstore", "s5cmd 2.3"]}
    assert member.commits(["a", "b", "c", "gone"]) == found
    assert member.commits(["b"])["versions"] == ["alpha 3", "s5cmd 2.3"]
    assert member.commits(["gone"]) == {}
