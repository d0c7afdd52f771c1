"""Pages of headings, tables and lines, as text and as one HTML file, for `storelab quick` and for docs/capabilities.md.

`history` uses the same classes. May import: `tables`, `parts`, `core`.
"""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from storelab.analysis.parts import groups, labels
from storelab.analysis.parts.groups import labelled
from storelab.analysis.tables import build, verdicts
from storelab.core import units

TEMPLATE = Path(__file__).with_suffix(".html")
WIDE = 100  # maximum number of characters of a line of text


@dataclass
class Section:
    """A section of a page: a heading, a table, lines below it, and a drawing.

    The first column of the table has words, the others numbers. drawing: SVG, which is only in the HTML; shows: text
    that describes the drawing.
    """

    title: str
    head: Sequence[str] = ()
    rows: list[list[str]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    drawing: str = ""
    shows: str = ""

    def text(self) -> list[str]:
        wide = [max(map(len, column)) for column in zip(self.head, *self.rows, strict=True)] if self.rows else []
        out = [self.title, "-" * len(self.title)]
        for row in [self.head, *self.rows] if self.rows else []:
            cells = [row[0].ljust(wide[0]), *(c.rjust(w) for c, w in zip(row[1:], wide[1:], strict=True))]
            out.append("   ".join(cells).rstrip())
        for line in self.lines:
            hang = " " * (len(line) - len(line.lstrip()))
            out += textwrap.wrap(line, WIDE, subsequent_indent=hang + "  ") or [""]
        return [*out, ""]


@dataclass
class Page:
    """A page with a title, a paragraph below the title (`under`), and sections."""

    title: str
    under: str
    sections: list[Section]

    def text(self) -> str:
        lines = [self.title, "=" * len(self.title), *textwrap.wrap(self.under, WIDE), ""]
        for section in self.sections:
            lines += section.text()
        return "\n".join(lines).rstrip() + "\n"

    def html(self) -> str:
        template = jinja2.Environment(autoescape=True, trim_blocks=True).from_string(TEMPLATE.read_text())
        return template.render(page=self) + "\n"


# --- the page of `storelab quick` ---

READERS = {
    "planned": "the read planner of storelab chooses the requests",
    "uproot-s3fs": "unmodified uproot over s3fs",
}


def page(campaign_dir: Path, url: str, seconds: float) -> Page:
    """Return the page about a campaign that measured one endpoint, from its tables.

    url: the title of the page; seconds: duration of the measurement.
    """
    names = ("points", "throughput", "latency", "sparse", "capabilities", "verdicts", "environment")
    tables = {name: build.read(campaign_dir, name) for name in names}
    store = tables["points"].loc[lambda t: t["workload"] != "calibrate", "store"].iloc[0]
    of_store = {n: t[t["store"] == store] if "store" in t else t for n, t in tables.items()}
    sections = [
        can(of_store["capabilities"]),
        rates(of_store["throughput"]),
        latencies(of_store["latency"]),
        sparse(of_store["sparse"]),
        limits(of_store["verdicts"]),
        failed_points(of_store["points"]),
    ]
    return Page(url, under(of_store, seconds), [s for s in sections if s.rows or s.lines])


def under(tables: dict[str, pd.DataFrame], seconds: float) -> str:
    """Return the paragraph below the title: server, host, time and duration, and the meaning of the numbers."""
    groups = tables["environment"].drop_duplicates(["group", "item"]).set_index(["group", "item"])["value"]
    store = f"store {tables['points']['store'].iloc[0]}"
    system, cores = _text(groups.get((store, "version"))), _text(groups.get(("environment", "cores")))
    begun = str(tables["points"]["started"].dropna().min())
    runs = labels.interval_text(tables["throughput"]["n"])
    return (
        f"{f'The server identifies itself as {system}. ' if system else ''}"
        f"Measured by storelab from a host of {cores} cores on "
        f"{begun[:10]}, from {begun[11:16]} UTC, in {units.human_duration(seconds * 1e9)}. "
        f"Numbers are medians{f'; in brackets: {runs}' if runs else ''}."
    )


def can(answers: pd.DataFrame) -> Section:
    """Return the section about capabilities: the number of answers `yes`, and all other answers with their evidence."""
    tried = answers[~answers["answer"].isin(["not tried", "error"])]
    yes, out = tried[tried["answer"] == "yes"], Section("Capabilities")
    if len(answers):
        out.lines.append(f"{len(yes)} of {labels.plural(len(tried), 'question')} were answered with yes.")
    for r in tried[tried["answer"] != "yes"].itertuples():
        evidence = " ".join(str(r.evidence).split())
        out.lines.append(f"  {r.answer}: {_plain(r.topic)}, {_plain(r.check)}: {evidence[:160]}")
    if left := [f"{_plain(r.topic)}, {_plain(r.check)}" for r in answers[answers["answer"] == "error"].itertuples()]:
        out.lines.append(f"  not known because of errors: {'; '.join(left)}")
    return out


def _plain(name: str) -> str:
    return str(name).replace("_", " ")


def _ordered(moved: pd.DataFrame) -> pd.DataFrame:
    """Return the rows sorted by size, workload (uploads first) and workers.

    Without rows, these columns can be missing, so that nothing is sorted.
    """
    order = ["object_size_bytes", "workload", "workers"]
    return moved.sort_values(order, ascending=[True, False, True]) if len(moved) else moved


def _moved(r: Any) -> tuple[str, str]:
    """Return the first cells of a row: operation and object size, and the number of requests in flight."""
    size = labels.cell("object_size_bytes", r.object_size_bytes)
    return f"{labels.value_text('workload', r.workload)} of {size}", f"{int(r.clients * r.workers)}"


ONE_RUN = " (n = 1)"


def _rate(n: int, median: float, low: float, high: float) -> str:
    """Return a median with its interval, and whether it is from one run, which has none."""
    return labels.spread([median, low, high]) + (ONE_RUN if n == 1 else "")


def _single_runs(section: Section) -> list[str]:
    """Return the line that explains ONE_RUN if a cell of the section has it."""
    found = any(cell.endswith(ONE_RUN) for row in section.rows for cell in row)
    return [f"{ONE_RUN.strip(' ()')}: one run, which has no interval."] if found else []


def rates(found: pd.DataFrame) -> Section:
    """Return the section about uploads and downloads, with one row per operation, object size and load."""
    moved = found[found["workload"].isin(groups.MOVING)]
    out = Section("Uploads and downloads", ["", "in flight", "objects/s", "MB/s", "failed"])
    for r in _ordered(moved).itertuples():
        out.rows.append(
            [
                *_moved(r),
                _rate(r.n, r.rate_median_per_s, r.rate_low_per_s, r.rate_high_per_s),
                _rate(r.n, r.throughput_median_mb_per_s, r.throughput_low_mb_per_s, r.throughput_high_mb_per_s),
                labels.number(r.errors),
            ]
        )
    out.lines += _single_runs(out)
    out.drawing = chart(found)
    out.shows = "Throughput in MB/s of each kind of upload and download, with its interval, on a logarithmic axis."
    return out


def latencies(found: pd.DataFrame) -> Section:
    """Return the section about latency, with one row per operation, object size and number of requests in flight."""
    moved = found[found["workload"].isin(groups.MOVING)] if len(found) else found
    out = Section("Latency of one operation, in ms", ["", "in flight", "50 % within", "90 % within", "99 % within"])
    for r in _ordered(moved).itertuples():
        values = {q: getattr(r, f"latency_{q}_median_ms") for q in ("p50", "p90", "p99")}
        bound = _text(r.lower_bounds)  # quantiles that include operations which never ended
        out.rows.append(
            [
                *_moved(r),
                *("-" if pd.isna(v) else ("≥ " if q in bound else "") + labels.number(v) for q, v in values.items()),
            ]
        )
    if any("-" in row[2:] for row in out.rows):
        out.lines.append("-: too few operations.")
    return out


FRACTIONS = ("entry_fraction_percent", "volume_fraction_percent")  # a campaign has one of these axes, or both


def sparse(found: pd.DataFrame) -> Section:
    """Return the section about reads of a ROOT file, with one row per selection and reader."""
    out = Section(
        "Sparse reads of a ROOT file", ["", "entries/s", "MB/s needed", "moved / needed", "requests per read"]
    )
    for r in found.itertuples():
        named = [f for f in FRACTIONS if not pd.isna(getattr(r, f, None))]
        what = labels.value_text(named[0], getattr(r, named[0])) if named else labels.value_text("workload", r.workload)
        out.rows.append(
            [
                f"{what}, {labels.value_text('engine', r.engine)}",
                _rate(r.n, r.entries_median_per_s, r.entries_low_per_s, r.entries_high_per_s),
                labels.number(r.needed_median_mb_per_s),
                labels.number(r.amplification_median_ratio),
                labels.number(r.requests_median_per_read),
            ]
        )
    out.lines += [f"{name}: {text}." for name, text in READERS.items() if (found["engine"] == name).any()]
    out.lines += _single_runs(out)
    if out.rows:
        out.lines.append("moved / needed: bytes received over the network / bytes of the baskets with the entries.")
    if any("--" in row for row in out.rows):
        out.lines.append("--: not known, for example because the received bytes could not be counted.")
    return out


def limits(found: pd.DataFrame) -> Section:
    """Return the section with the verdict on the limit of each deployment."""
    return Section("Limits", lines=verdicts.lines(found.assign(deployment="")))


def failed_points(points: pd.DataFrame) -> Section:
    """Return the section about points that failed or are invalid, with the reasons."""
    out = Section("Failures")
    for _, r in points[points["state"] != "ok"].iterrows():
        _, *texts = labels.key_text(r["key"])  # without the store
        engine = r.get("engine")
        if not pd.isna(engine) and f"engine {engine}" not in texts:  # a key has no axes at their default
            texts.insert(1, f"engine {engine}")
        out.lines.append(f"{', '.join(texts)}: {r['state']}: {_text(r['reason'])}")
    return out


# The chart: sizes in pixels at the width of a narrow page.
WIDTH, LABELS, RIGHT, ROW, TOP = 470, 165, 45, 22, 26
HALO = 'stroke="#fff" stroke-width="4" paint-order="stroke"'  # so that no line of the grid crosses a number
COLOURS = {"put": "#0072b2", "get": "#d55e00"}


def chart(found: pd.DataFrame) -> str:
    """Return an SVG with the throughput of each row of `rates`, with its interval, on a logarithmic axis."""
    moved = _ordered(found[found["workload"].isin(groups.MOVING)])
    if moved.empty:
        return ""
    low, mid, high = (moved[f"throughput_{c}_mb_per_s"] for c in ("low", "median", "high"))
    known = mid[mid > 0]
    if known.empty:
        return ""
    lowest = math.floor(math.log10(min(known.min(), low[low > 0].min())))
    highest = max(lowest + 1, math.ceil(math.log10(max(known.max(), high.max()))))

    def x(value: float) -> float:
        share = (math.log10(max(value, 10.0**lowest)) - lowest) / (highest - lowest)
        return round(LABELS + share * (WIDTH - LABELS - RIGHT), 1)

    bottom = TOP + ROW * len(moved)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 8}" font-family="sans-serif" '
        f'font-size="12" fill="#222" style="min-width:0;max-width:{1.5 * WIDTH:g}px">',
        '<text x="4" y="12">MB/s</text>',
    ]
    for power in range(lowest, highest + 1):
        place = x(10.0**power)
        out.append(f'<path d="M{place} {TOP - 8}V{bottom}" stroke="#ccc"/>')
        out.append(f'<text x="{place}" y="12" text-anchor="middle">{10.0**power:g}</text>')
    for number, r in enumerate(moved.itertuples()):
        y = TOP + ROW * number + ROW // 2
        what, flying = _moved(r)
        out.append(f'<text x="4" y="{y + 4}">{escape(what)} × {escape(flying)}</text>')
        value = r.throughput_median_mb_per_s
        if not value > 0:
            continue
        ends = [e for e in (r.throughput_low_mb_per_s, r.throughput_high_mb_per_s) if e > 0]
        if len(ends) == 2:
            line = f"M{x(ends[0])} {y}H{x(ends[1])}"
            out.append(f'<path d="{line}" stroke="{COLOURS[r.workload]}" stroke-width="3" opacity=".5"/>')
        out.append(f'<circle cx="{x(value)}" cy="{y}" r="4" fill="{COLOURS[r.workload]}"/>')
        edge = x(max([value, *ends]))
        out.append(f'<text x="{edge + 7}" y="{y + 4}" {HALO}>{escape(labels.number(value))}</text>')
    return "".join([*out, "</svg>"])


def _text(value: Any) -> str:
    return "" if pd.isna(value) else str(value)


# --- docs/capabilities.md ---

CAPABILITIES = """# Capabilities of the stores

<!-- Generated by `storelab capabilities {{ folder }}`. -->

The workload `probe` of the campaign `{{ campaign }}` sent requests and verified every answer
([the questions](probe.md)): `yes`, `no`, or `differs` from the expected answer, with the evidence below; `-`: not
tried. Stores that were asked the same questions share a table. Questions of one topic with equal answers share a row.
{% for names, lines in tables %}

## {{ names | join(", ") }}

| | | {{ names | join(" | ") }} |
|---|---|{{ "---|" * names | length }}
{% for line in lines %}
| {{ line | join(" | ") }} |
{% endfor %}
{% endfor %}

## Evidence of answers other than yes

| store | question | answer | evidence |
|---|---|---|---|
{% for row in unclear %}
| {{ row | join(" | ") }} |
{% endfor %}
"""


def capabilities_page(table: pd.DataFrame, campaign: str, folder: str) -> str:
    """Return docs/capabilities.md: tables of answers with one column per deployment, and the evidence.

    The evidence is given for all answers other than `yes`.
    """
    rows = labelled(table)
    rows = rows.assign(topic=rows["topic"].map(_plain), check=rows["check"].map(_plain))
    requested: dict[frozenset[tuple[str, str]], list[str]] = {}  # questions -> deployments that were asked them
    for name, answers in rows.groupby("deployment", sort=False):
        requested.setdefault(frozenset(zip(answers["topic"], answers["check"], strict=True)), []).append(str(name))
    tables = [(names, _answers(rows[rows["deployment"].isin(names)], names)) for names in requested.values()]
    evidence: dict[tuple[str, ...], list[str]] = {}  # (deployment, topic, answer, evidence) -> questions
    for r in rows[rows["answer"].isin(["no", "differs", "unclear", "error"])].itertuples(index=False):
        text = " ".join(str(r.evidence).split()).replace("|", "\\|")[:400]
        evidence.setdefault((r.deployment, r.topic, r.answer, text), []).append(r.check)
    shared: dict[tuple[str, ...], list[str]] = {}  # (questions, answer, evidence) -> deployments
    for (name, _, answer, text), checks in evidence.items():
        shared.setdefault(("; ".join(checks), answer, text), []).append(name)
    unclear = [(", ".join(names), *cells) for cells, names in shared.items()]
    template = jinja2.Environment(trim_blocks=True, keep_trailing_newline=True).from_string(CAPABILITIES)
    return template.render(campaign=campaign, folder=folder, tables=tables, unclear=unclear)


def _answers(rows: pd.DataFrame, names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the lines of a table of answers: topic, questions with equal answers, and one answer per deployment."""
    lines: dict[tuple[str, ...], list[str]] = {}
    for (topic, check), answers in rows.groupby(["topic", "check"], sort=False):
        known = answers.set_index("deployment")["answer"]
        lines.setdefault((topic, *(_cell(known.get(name, "")) for name in names)), []).append(check)
    return [(topic, "; ".join(checks), *cells) for (topic, *cells), checks in lines.items()]


def _cell(answer: str) -> str:
    if answer in ("", "yes"):
        return answer
    return "-" if answer == "not tried" else f"**{answer}**"
