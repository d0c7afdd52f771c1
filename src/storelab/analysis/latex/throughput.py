"""The paper's tables in LaTeX (booktabs, longtable), from the CSV tables and the published numbers (level 3, analysis)."""

import pandas as pd

from storelab.analysis.latex.parts import THIN, breakable, escape, longtable, spread, stacked, tabular
from storelab.analysis.latex.parts import row as line
from storelab.analysis.parts import words
from storelab.analysis.tables import numbers
from storelab.core import units

NAMES = {"throughput_download": "Download", "throughput_upload": "Upload", "metadata_download": "Download", "metadata_upload": "Upload"}
MANY = 6  # columns of axes from which on a table wants smaller letters
RAW = ("put", "get")
SHOWN = {"mb_per_s": "MB/s", "per_s": "objects/s"}


def _share(row: pd.Series) -> str:
    """CPU of clients / server in percent of the host's cores."""
    return " / ".join("--" if pd.isna(row[f"{who}_cpu_percent"]) else f"{row[f'{who}_cpu_percent']:.0f}" for who in ("client", "server"))


def _bound(row: pd.Series) -> str:
    """`c` where the client was near what it could do at most."""
    return "c" if str(row.get("client_bound")) == "True" else ""


def _metric(name: str) -> tuple[str, str]:
    return ("throughput", "mb_per_s") if name.startswith("throughput") else ("rate", "per_s")


def best(table: pd.DataFrame) -> str:
    """The highest median per operation, object size and store, where it was seen, and the CPU of both sides."""
    rows = []
    for name in numbers.CLASSES:
        metric, unit = _metric(name)
        of = numbers.of_class(table, name)
        for (store, size), part in of[of[f"{metric}_median_{unit}"].notna()].groupby(["store", "object_size_bytes"]) if len(of) else []:
            top = part.loc[part[f"{metric}_median_{unit}"].idxmax()]
            cells = [
                NAMES[name],
                units.format_size(int(size)),
                store,
                *(words.cell(c, top[c]) for c in ("clients", "workers", "front_ends")),
                f"{top['n']:g}",
            ]
            rows.append(line([*map(escape, cells), spread(top, metric, unit), SHOWN[unit], _share(top), _bound(top)]))
    head = ["", "Objects", "Store", "Clients", "Workers", "Front-ends", "n", "Median [low, high]", "", r"CPU [\%]", ""]
    return tabular("lllrrrrrlrl", head, rows) if rows else ""


def _all_of(table: pd.DataFrame, workload: str) -> str:
    rows = table[table["workload"] == workload]
    axes = [c for c in words.axes_of(table) if rows[c].notna().any()]
    moving = ["store", *(c for c in axes if rows[c].nunique() > 1)]
    still = list(filter(None, (words.value_text(c, rows[c].iloc[0]) for c in axes if c not in moving)))
    lines = []
    for _, r in rows.iterrows():
        labels = "".join(mark for mark, column in (("d", "drifting"), ("s", "too_short")) if r[column]) + _bound(r)
        cells = [words.cell(c, r[c]) for c in moving] + [
            f"{r['n']:g}" + (f" of {r['reps_planned']:g}" if r["n"] < r["reps_planned"] else "")
        ]
        lines.append(
            line(
                [escape(c) for c in cells]
                + [
                    spread(r, "throughput", "mb_per_s"),
                    spread(r, "rate", "per_s"),
                    words.number(r["errors"], places=0, gap=THIN),
                    words.number(r["tail_max_s"], places=2),
                    _share(r),
                    labels,
                ]
            )
        )
    useful = "useful MB/s" if workload not in RAW else "MB/s"
    head = [stacked(escape(words.heading(c))) for c in moving] + ["n", useful, "operations/s", "Errors", "Tail [s]", r"CPU [\%]", ""]
    caption = (
        f"All groups of points of the workload \\texttt{{{escape(workload)}}} ({escape('; '.join(still))}): median [low, high] over n runs "
        "in the window in which all clients are active; errors of all runs together; longest tail; CPU of the clients / of the server in "
        "percent of the host's cores (median). Marks: d, a run drifts; s, a run is too "
        "short to judge its steadiness; c, client-bound: near what the clients could do at most."
    )
    size = "scriptsize" if len(moving) < MANY else "tiny"
    return longtable("l" + "r" * (len(moving) - 1) + "rrrrrrl", caption, f"tab:all_{workload}", head, lines, size)


def throughput(table: pd.DataFrame) -> str:
    """All groups of points, one table per workload; axes that do not vary stand in the caption."""
    return "\n".join(_all_of(table, w) for w in table["workload"].unique())


def failed(points: pd.DataFrame) -> str:
    """Every failed point with its reason."""
    rows = points[points["state"] == "failed"]
    if rows.empty:
        return ""
    lines = [line([breakable(escape(r.key)), escape(r.reason)]) for r in rows.itertuples(index=False)]
    left = r">{\raggedright\arraybackslash}p{"
    return longtable(
        rf"{left}7.5cm}}{left}8.2cm}}",
        "Points that failed, with the reason as recorded. They are in no median.",
        "tab:failed",
        ["Point", "Reason"],
        lines,
    )


def _size(value: str) -> str:
    """Exact where that is short (`32 KiB`), rounded else (`25.3 GB`)."""
    exact = units.format_size(int(value))
    return exact if len(exact) <= 9 else units.human_size(float(value))


def environment(table: pd.DataFrame) -> str:
    """What the machine captured; the last column counts the points where a value differs between points."""
    lines, total = [], {g: rows.groupby("item")["points"].sum().max() for g, rows in table.groupby("group")}
    ranks = ("environment", "clients", "store", "engine", "checks")
    for group in sorted(total, key=lambda g: (ranks.index(g.split()[0]) if g.split()[0] in ranks else len(ranks), g)):
        rows = table[table["group"] == group]
        lines.append(rf"\multicolumn{{3}}{{@{{}}l@{{}}}}{{\textbf{{{escape(group[0].upper() + group[1:])}}}}} \\*")
        for r in rows.itertuples(index=False):
            value = _size(r.value) if r.item.endswith("_bytes") and r.value.isdigit() else r.value
            item = r.item.removesuffix("_bytes").replace("_", " ").replace(".", ", ")
            lines.append(line([escape(item), breakable(escape(value)), "" if r.points == total[group] else str(r.points)]))
    spec = r"l>{\raggedright\arraybackslash}p{10.2cm}r"
    return longtable(
        spec,
        "Environment, systems and engines as captured with the records; "
        "a count of points stands where a value does not hold for all of its group.",
        "tab:environment",
        ["Item", "Value", "Points"],
        lines,
    )
