"""LaTeX of one_client.csv: the table of threads of 2012, ours beside each of its rows."""

import pandas as pd

from storelab.analysis.latex import FILE, FLAGS
from storelab.analysis.latex.parts import FEW, THIN, escape, interval, longtable, row, stacked, title
from storelab.analysis.parts import words
from storelab.analysis.tables.earlier import MEASURED

RATE = {"4 kB": ("rate", "per_s", "files/s"), "10 MB": ("throughput", "mb_per_s", "MB/s")}  # of ours, by size
MOST = 5  # columns of ours that fit
LEAST = 3  # numbers of threads that a setting was measured with: fewer are no column beside the printed ones


@FILE("table_one_client", "one_client")
def one_client(table: pd.DataFrame) -> str:
    """A table per system of ours, a block per operation and size: both printed rates, ours by engine and buckets. None
    of a system where no setting has LEAST numbers of threads: `earlier.csv` sets those beside the printed numbers."""
    parts = []
    for number, (system, own) in enumerate(_told(table)):
        every = _settings(own)
        settings = sorted(every[:MOST])
        lines: list[str] = []
        for (operation, size), mine in own.groupby(["operation", "object_size"], sort=False):
            printed = table[
                (table["source"] != MEASURED) & (table["operation"] == operation) & (table["object_size"] == size)
            ]
            unit = RATE[str(size)][2]
            lines.append(title(3 + len(settings), escape(f"{operation} of {size}, ours in {unit}")))
            lines += _block(printed.set_index("workers"), mine, settings, str(size))
        head = ["Threads", "Published files/s", "Published MB/s"]
        head += [
            ", ".join(filter(None, [f"{engine} {words.plural(buckets, 'bucket').replace(' ', '~')}", more]))
            for engine, buckets, more in settings
        ]
        caption = (
            f"One client and its threads: {escape(system)}, beside the table published in 2012 for another system, "
            "network and client (Huawei UDS, first generation, one bucket; the client had 1~Gb/s), as printed, with "
            "the printed spread. Ours: median [low, high]. A dash: not printed, or not measured."
        )
        if len(every) > MOST:
            caption += f" Shown: {MOST} of {len(every)} settings; all are in one\\_client.csv."
        label = "tab:one_client" + (f"_{number}" if number else "")
        spec = "rrr" + "r" * len(settings)
        parts.append(
            longtable(
                spec, caption, label, [stacked(escape(h).replace(r"\textasciitilde{}", "~")) for h in head], lines
            )
        )
    return "\n".join(parts)


@FLAGS("one_client", "one_client")
def flags(table: pd.DataFrame) -> dict[str, bool]:
    """Whether a system has a table."""
    return {"one_client": bool(_told(table))}


def _told(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """(system, our rows) of those that have enough."""
    by = ["operation", "object_size", "engine", "buckets", "setting"]
    systems = table[table["source"] == MEASURED].groupby("system", sort=False)
    return [
        (str(name), own) for name, own in systems if own.groupby(by, dropna=False)["workers"].nunique().max() >= LEAST
    ]


def _settings(own: pd.DataFrame) -> list[tuple[str, int, str]]:
    """(engine, buckets, what else is not at its default) of the columns: the usual ones first, with the most points."""
    counts = own.astype({"setting": object}).fillna({"setting": ""}).groupby(["engine", "buckets", "setting"]).size()
    return sorted(counts.index, key=lambda key: (key[2] != "", -counts[key]))


def _block(printed: pd.DataFrame, mine: pd.DataFrame, settings: list[tuple[str, int, str]], size: str) -> list[str]:
    name, unit, _ = RATE[size]
    lines = []
    for threads in sorted({*printed.index, *mine["workers"]}):
        theirs = printed.loc[threads] if threads in printed.index else None
        cells = [f"{threads:g}", _printed(theirs, "rate", "per_s"), _printed(theirs, "throughput", "mb_per_s")]
        for engine, buckets, more in settings:
            own = mine[(mine["engine"] == engine) & (mine["buckets"] == buckets) & (mine["workers"] == threads)]
            own = own[own["setting"].astype(object).fillna("") == more]
            values = own[[f"{name}_{part}_{unit}" for part in ("median", "low", "high")]]
            mark = FEW if (own["few"] == True).any() else ""  # noqa: E712 (of a column of objects)
            cells.append(interval(*values.iloc[0]) + mark if len(values) else "--")
        lines.append(row(cells))
    return lines


def _printed(r: "pd.Series | None", name: str, unit: str) -> str:
    """`7.3 $\\pm$ 0.5`, digit by digit as printed."""
    if r is None or pd.isna(r[f"{name}_median_{unit}"]):
        return "--"
    value, spread = (f"{r[f'{name}_{part}_{unit}']:g}" for part in ("median", "spread"))
    return rf"{words.grouped(value, THIN)} $\pm$ {spread}"
