"""What limited each system: the table of verdicts, and the first page, which says what each does at best too.

The findings that are judged stand in `claims`. May import: what `latex` may. The first page has a row per deployment
and a column per kind of work that the campaign measured, all from tables that the paper shows in full.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pandas as pd

from storelab.analysis.latex import FILE, FILLED, FLAGS, GIVEN
from storelab.analysis.latex.latency import AT_LEAST
from storelab.analysis.latex.parts import THIN, below, escape, left, longtable, row, spread, tabular
from storelab.analysis.parts import groups, speed, words
from storelab.analysis.tables.throughput import CLASSES, measured
from storelab.analysis.tables.verdicts.rules import NOT_KNOWN
from storelab.core import units

WIDTH = 15.8  # cm: of the text
NAME, LIMIT, WIDEST, GAP = 1.9, 3.4, 3.2, 0.28  # cm: first and last column, one of the others at most, between two
MANY = 6  # systems or kinds from which on the letters are smaller
READS = ("read_entries", "read_volume")  # the one that a campaign of sparse reads is about first


@dataclass(frozen=True)
class Best:
    """The best of one kind: its heading, the lines of its cell (LaTeX), and its verdict, if it has one."""

    heading: str
    lines: tuple[str, ...]
    verdict: str = ""


@GIVEN("best", "points", "throughput", "latency", "sparse", "events", "verdicts")
def best(
    points: pd.DataFrame,
    throughput: pd.DataFrame,
    latency: pd.DataFrame,
    sparse: pd.DataFrame,
    events: pd.DataFrame,
    verdicts: pd.DataFrame,
) -> dict[str, list[Best]]:
    """What is said of each deployment that has a good point; deployments of which nothing is known are left out."""
    tables = [_labelled(t) for t in (throughput, latency, sparse, events)]
    found = {}
    for name in sorted(set(_labelled(points[points["state"] == "ok"])["deployment"])):
        rates, quantiles, reads, jobs = (t[t["deployment"] == name] for t in tables)
        own = verdicts[verdicts["deployment"] == name]
        found[name] = [*_moved(rates, own), *_latency(quantiles), *_reads(reads, own), *_jobs(jobs, own)]
    return {name: kinds for name, kinds in found.items() if kinds}


@FLAGS("summary", "best")
def flags(best: Mapping[str, list[Best]]) -> dict[str, bool]:
    kinds = [{b.heading for b in known} for known in best.values()]
    return {
        "summary": bool(best),
        "summary_several": len(best) > 1,
        "summary_gaps": any(known != set.union(*kinds) for known in kinds),
        "summary_intervals": any("[" in line for known in best.values() for b in known for line in b.lines),
    }


@FILE("table_summary", "best")
def summary(best: Mapping[str, list[Best]]) -> str:
    """One row per deployment, a column for each kind that one of them has."""
    heads = [h for h in UNITS if any(b.heading == h for known in best.values() for b in known)]
    lines = []
    for name, known in best.items():
        cells = {b.heading: r"\newline ".join(b.lines) for b in known}
        lines.append(row([escape(name), *(cells.get(h, "--") for h in heads), _limits(known)]))
    wide = (WIDTH - NAME - LIMIT) / len(heads) - GAP
    small = len(best) >= MANY or len(heads) >= MANY
    spec = left(NAME, *[round(min(wide, WIDEST), 2)] * len(heads), LIMIT)
    body = tabular(
        spec, ["System", *(f"{h} [{UNITS[h]}]" for h in heads), "Limited by"], lines, "tiny" if small else "scriptsize"
    )
    return f"\\begin{{center}}\n{body}\\end{{center}}\n"


KINDS = {f"{of.verb}, {'large' if of.large else 'small'}": name for name, of in CLASSES.items()}
UNITS = {kind: CLASSES[name].shown for kind, name in KINDS.items()} | {
    "Latency": "ms",
    "Sparse reads": "entries/s",
    "Jobs": "events/s",
}  # in the order of the columns


def _labelled(table: pd.DataFrame) -> pd.DataFrame:
    """With `deployment`; of closed loops alone, for the rate of an open one is that of its arrivals."""
    if "arrival_rate" in table:
        table = table[table["arrival_rate"].fillna(0) == 0]
    return groups.labelled(table) if len(table) else table.assign(deployment="")


def _spread(r: pd.Series, name: str, unit: str) -> tuple[str, ...]:
    """The median, and its interval in brackets where there is more than one run."""
    median, _, interval = spread(r, name, unit).partition(" [")
    return (median, *([f"[{interval}"] if r["n"] > 1 else []))


def _runs(r: pd.Series) -> str:
    return f"n~=~{r['n']:g}"


def _moved(rates: pd.DataFrame, verdicts: pd.DataFrame) -> Iterator[Best]:
    """The highest median of each class of operations, with the verdict on it."""
    for kind, name in KINDS.items():
        of = CLASSES[name]
        known = measured(rates, name) if len(rates) else rates
        if known.empty:
            continue
        top = known.loc[known[of.median].idxmax()]
        size = escape(units.format_size(int(top["object_size_bytes"])))
        on = verdicts[(verdicts["workload"] == of.workload) & (verdicts["unit"] == of.shown)]
        yield Best(
            kind,
            (*_spread(top, *of.metric), f"{size}, {_runs(top)}"),
            _verdict(on),
        )


def _latency(quantiles: pd.DataFrame) -> Iterator[Best]:
    """p50 and p99 of the smallest operation with the fewest in flight, a download if there is one."""
    known = quantiles[quantiles["latency_p50_median_ms"].notna()] if len(quantiles) else quantiles
    known = known[known["workload"].isin(speed.MOVING)] if len(known) else known
    if known.empty:
        return
    sizes = known.reindex(columns=["range_size_bytes", "object_size_bytes"]).astype(float).bfill(axis=1).iloc[:, 0]
    order = known.assign(moved=sizes, first=known["op"].map({"GET": 0, "PUT": 1}).fillna(2))
    r = order.sort_values(["first", "moved", "concurrency", "latency_p50_median_ms"], kind="stable").iloc[0]
    bounds = str(r["lower_bounds"]) if pd.notna(r["lower_bounds"]) else ""
    quantile = [
        f"{q}~{AT_LEAST if f'latency_{q}' in bounds.split(', ') else ''}"
        f"{words.number(r[f'latency_{q}_median_ms'], gap=THIN)}"
        for q in ("p50", "p99")
        if pd.notna(r[f"latency_{q}_median_ms"])
    ]
    size = units.format_size(int(r["moved"]))
    yield Best("Latency", (*quantile, escape(f"{r['op']} {size}, {r['concurrency']:g} in flight, ") + _runs(r)))


def _reads(reads: pd.DataFrame, verdicts: pd.DataFrame) -> Iterator[Best]:
    """The fastest reading of the smallest part of a ROOT file."""
    for workload, fraction in zip(READS, ("entry_fraction_percent", "volume_fraction_percent"), strict=True):
        known = reads[(reads["workload"] == workload) & reads["entries_median_per_s"].notna()] if len(reads) else reads
        known = known[known[fraction] < 100] if len(known) else known
        if len(known):
            known = known[known[fraction] == known[fraction].min()]
            r = known.loc[known["entries_median_per_s"].idxmax()]
            part = words.value_text(fraction, r[fraction])
            told = verdicts["what"].fillna("").map(lambda what, part=part: part in what.split(", "))
            on = verdicts[(verdicts["workload"] == workload) & (verdicts["engine"] == r["engine"]) & told]
            what = escape(f"{part}, {r['engine']}, ") + _runs(r)
            yield Best("Sparse reads", (*_spread(r, "entries", "per_s"), what), _verdict(on))
            return


def _jobs(jobs: pd.DataFrame, verdicts: pd.DataFrame) -> Iterator[Best]:
    """The most events that jobs processed."""
    known = jobs[jobs["events_median_per_s"].notna()] if len(jobs) else jobs
    if len(known):
        r = known.loc[known["events_median_per_s"].idxmax()]
        on = verdicts[(verdicts["workload"] == "events") & (verdicts["engine"] == r["engine"])]
        said = escape(f"{r['navigation']}, {words.plural(r['clients'], 'job')}, ") + _runs(r)
        yield Best("Jobs", (*_spread(r, "events", "per_s"), said), _verdict(on))


def _verdict(on: pd.DataFrame) -> str:
    """That of the fastest of these subjects."""
    return str(on.loc[on["best"].idxmax(), "verdict"]) if len(on) else NOT_KNOWN


def _limits(best: list[Best]) -> str:
    """Each verdict with what it is about; alone where it is about all."""
    about: dict[str, list[str]] = {}
    for b in best:
        if b.verdict:
            about.setdefault(b.verdict, []).append(b.heading.lower().replace(",", ""))
    if len(about) <= 1:
        return escape(next(iter(about), ""))
    return r"\newline ".join(f"{escape(verdict)} \\emph{{({', '.join(of)})}}" for verdict, of in about.items())


@FILE("table_verdicts", "verdicts")
@FILLED("verdicts", "verdicts")
def verdicts(table: pd.DataFrame) -> str:
    """Below a line for each system one row per workload and size: the best median, where it was reached, the verdict
    and what it rests on."""
    lines = []
    for r in table.itertuples(index=False):
        rest = r.would_tell if r.verdict == NOT_KNOWN else r.also
        beside = (
            ("what would tell: " if r.verdict == NOT_KNOWN else "also ") + str(rest)
            if isinstance(rest, str) and rest
            else ""
        )
        what = ", ".join(str(v) for v in (r.workload, r.engine, r.what) if isinstance(v, str) and v)
        best = f"{words.number(r.best, gap=THIN)} {escape(r.unit)}; {escape(r.where)}"
        evidence = escape(r.evidence) + (f" \\emph{{{escape(beside)}}}" if beside else "")
        lines.append((escape(r.deployment), row([escape(what), best, escape(r.verdict), evidence])))
    caption = (
        "What limited each system at the best median rate that was measured, and the evidence. Rules and thresholds "
        "are those of the documentation; the first one that fires is the verdict, others that fire stand in italics. "
        "Where none fires, it says what would tell."
    )
    head = ["Workload", "Best", "Limited by", "Evidence"]
    return longtable(left(4.4, 3.0, 2.3, 5.4), caption, "tab:verdicts", head, below(4, lines))
