"""The golden set: what tables, figures, TeX, plans and help are today, in a form that outlives any inner change of the
house.

Everything goes through `python -m storelab`, in this process; nothing else of storelab is imported. `Figure.savefig` is
replaced while figures are made: what was drawn is read from the Figure, nothing is rendered.
`python tests/support/golden.py --update [NAME ...]` writes what is expected anew (a campaign below tests/data/golden/,
`plans`, `cli` or `requests`; default: all).
"""

import argparse
import contextlib
import io
import json
import math
import os
import re
import runpy
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import LineCollection, PathCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle, StepPatch
from matplotlib.ticker import FixedLocator
from paths import ROOT

GOLDEN = ROOT / "tests" / "data" / "golden"
SEALED = ("reference", "testbed2015")  # their records lie in results/
# Their test is marked heavy; `failures`, `intervals`, `root` and `several` are held by each `make test`.
LONG = (*SEALED, "intervals", "jobs", "nodes", "reads", "redundancy", "root", "soak", "systems", "transfers")
NEAR = 0.07  # of a logarithmic axis: curves are drawn so far aside at most, that no bar hides another
CAPS = ("|", "_", 0, 1, 2, 3)  # markers: ends of error bars


# --- the command line -------------------------------------------------------------------------------------------------


def storelab(*arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout, stderr of `python -m storelab …`, run in this process from the root of the repository."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    here = Path.cwd()
    os.chdir(ROOT)
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            mock.patch.object(sys, "argv", ["storelab", *arguments]),
            mock.patch.dict(os.environ, {"COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"}),
        ):
            try:
                runpy.run_module("storelab", run_name="__main__", alter_sys=False)
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        os.chdir(here)
    return code, out.getvalue(), err.getvalue()


def done(*arguments: str) -> str:
    code, out, err = storelab(*arguments)
    if code:
        raise AssertionError(f"storelab {' '.join(arguments)}: exit code {code}: {err}")
    return out


# --- a campaign -------------------------------------------------------------------------------------------------------


def campaigns() -> list[str]:
    return [*SEALED, *sorted(p.parent.name for p in GOLDEN.glob("*/raw"))]


def raw_of(name: str) -> Path:
    return (ROOT / "results" / name if name in SEALED else GOLDEN / name) / "raw"


def rebuild(name: str, folder: Path) -> dict[str, Any]:
    """Tables, TeX and figures of a campaign, made anew in `folder` from its records: {file below expected/: text or
    data}.
    """
    shutil.copytree(raw_of(name), folder / "raw")
    at = ("--campaign-dir", str(folder))
    said = done("verify", *at)
    done("tables", *at)
    with drawn(folder / "figures") as figures:
        done("figures", *at)
    done("latex", *at)
    out: dict[str, Any] = {"verify.txt": plain(said, folder), "figures.json": figures}
    code, verdict, problem = storelab("verdict", *at)
    out["verdict.txt"] = plain(f"exit code {code}\n{verdict}{problem}", folder)
    page = folder / "capabilities.md"
    if storelab("capabilities", *at, "--output", str(page))[0] == 0:
        out["capabilities.md"] = plain(page.read_text(), folder)
    for kind, ending in (("tables", "csv"), ("tex", "tex")):
        for path in sorted((folder / kind).glob(f"*.{ending}")):
            out[f"{kind}/{path.name}"] = plain(path.read_text(), folder)
    index = json.loads((folder / "figures" / "index.json").read_text())
    out["captions.json"] = {name: entry["caption"] for name, entry in index["figures"].items()}
    return out


def plain(text: str, folder: Path) -> str:
    """Without what differs from one checkout to another: its paths."""
    return text.replace(str(folder), "CAMPAIGN").replace(str(ROOT), "ROOT")


# --- what a figure shows ----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def drawn(folder: Path) -> Iterator[dict[str, Any]]:
    """The one adapter to matplotlib: while it holds, a saved figure is described instead of rendered, and its files
    hold a number only; at the end the dictionary is {name of the figure (of its file): description}.
    """
    described: list[dict[str, Any]] = []
    found: dict[str, Any] = {}

    def savefig(fig: Figure, target: Any, *_: Any, **__: Any) -> None:
        described.append(describe(fig))
        text = f"golden {len(described) - 1}".encode()
        target.write(text) if hasattr(target, "write") else Path(target).write_bytes(text)

    unplaced = mock.patch.object(ConstrainedLayoutEngine, "execute", lambda *_: None)  # nothing of it is described
    with unplaced, mock.patch.object(Figure, "savefig", savefig):
        yield found
    for path in sorted([*folder.glob("*.pdf"), *folder.glob("*.png")]):
        shown = described[int(path.read_bytes().split()[1])]
        if found.setdefault(path.stem, shown) != shown:
            raise AssertionError(f"{path.name} shows something else than its twin")


def describe(fig: Figure) -> dict[str, Any]:
    """Words and data of a figure, whatever artists draw them."""
    said = [t for t in (getattr(fig, f"get_{n}")() for n in ("suptitle", "supxlabel", "supylabel")) if t]
    legends = list(fig.legends)
    return {
        "words": [" ".join(t.split()) for t in said],
        "legends": [legend_words(one) for one in legends],
        "panels": [panel(ax, [*legends, *filter(None, [ax.get_legend()])]) for ax in fig.axes],
    }


def legend_words(legend: Legend) -> dict[str, Any]:
    return {"title": legend.get_title().get_text(), "labels": [t.get_text() for t in legend.get_texts()]}


def panel(ax: Axes, legends: list[Legend]) -> dict[str, Any]:
    """Title, axes and series of a panel.

    A series: points, intervals, bars, steps, each sorted; `lines`: across the whole panel.
    """
    series: dict[str, dict[str, list[Any]]] = {}

    def add(name: str, kind: str, items: Iterable[Any]) -> None:
        known = series.setdefault(name, {}).setdefault(kind, [])
        known += [item for item in items if item not in known]

    lines = []
    for line in ax.lines:
        if (across := _across(ax, line)) is not None:
            lines.append(across)
        elif not _cap(line) and len(line.get_xdata()):
            add(label(line, legends), "points", _points(ax, line.get_xdata(), line.get_ydata()))
    for marks in ax.collections:
        if isinstance(marks, LineCollection):
            add(label(marks, legends), "intervals", filter(None, (_interval(ax, s) for s in marks.get_segments())))
        elif isinstance(marks, PathCollection):
            add(label(marks, legends), "points", _points(ax, *zip(*marks.get_offsets().tolist(), strict=True)))
        elif isinstance(marks, PolyCollection):
            for path in marks.get_paths():
                add(label(marks, legends), "bands", _points(ax, *zip(*path.vertices.tolist(), strict=True)))
    for patch in ax.patches:
        if isinstance(patch, StepPatch):
            values, edges, base = patch.get_data()
            under = base if base is not None and getattr(base, "__len__", None) else [base or 0] * len(values)
            add(
                label(patch, legends),
                "steps",
                [[number(e), number(v - u)] for e, v, u in zip(edges, values, under, strict=False)],
            )
        elif isinstance(patch, Rectangle):
            add(label(patch, legends), "bars", [_bar(ax, patch)])
    for kinds in series.values():
        for items in kinds.values():
            items.sort(key=lambda item: json.dumps(item))
    own = ax.get_legend()
    return {
        "title": " ".join(ax.get_title().split()),
        "x": {"label": ax.get_xlabel(), "scale": ax.get_xscale()},
        "y": {"label": ax.get_ylabel(), "scale": ax.get_yscale()},
        **({"legend": legend_words(own)} if own else {}),
        "texts": sorted(t.get_text() for t in ax.texts),
        "lines": sorted(lines),
        "series": {
            name: {kind: items for kind, items in kinds.items() if items}
            for name, kinds in sorted(series.items())
            if any(kinds.values())
        },
    }


def number(value: Any) -> Any:
    """To six significant digits; None for what is no number."""
    value = float(value)
    return None if math.isnan(value) else float(f"{value:.6g}")


def _cap(line: Line2D) -> bool:
    """Is it an end of an error bar?"""
    return line.get_marker() in CAPS and line.get_linestyle() in ("None", "none", "", " ")


def _across(ax: Axes, line: Line2D) -> list[Any] | None:
    """[axis, value] of a line through the whole panel."""
    if line.get_transform() == ax.get_yaxis_transform(which="grid"):
        return ["y", number(line.get_ydata()[0])]
    if line.get_transform() == ax.get_xaxis_transform(which="grid"):
        return ["x", number(line.get_xdata()[0])]
    return None


def _points(ax: Axes, xs: Iterable[Any], ys: Iterable[Any]) -> list[list[Any]]:
    return [[place(ax, ax.xaxis, x), place(ax, ax.yaxis, y)] for x, y in zip(xs, ys, strict=True)]


def _interval(ax: Axes, segment: Any) -> list[Any] | None:
    """[x, low, high], or for a horizontal one [[low, high], y]; None where there is no length."""
    if len(segment) != 2:
        return None
    (x0, y0), (x1, y1) = segment
    if x0 == x1 and y0 != y1:
        return [place(ax, ax.xaxis, x0), *sorted((number(y0), number(y1)))]
    if y0 == y1 and x0 != x1:
        return [sorted((number(x0), number(x1))), place(ax, ax.yaxis, y0)]
    return None


def _bar(ax: Axes, bar: Rectangle) -> list[Any]:
    """[category, length]: lying where the categories stand on the y axis."""
    if categories(ax, ax.yaxis):
        return [place(ax, ax.yaxis, bar.get_y() + bar.get_height() / 2), number(bar.get_width())]
    return [place(ax, ax.xaxis, bar.get_x() + bar.get_width() / 2), number(bar.get_height())]


def categories(ax: Axes, axis: Axis) -> dict[float, str]:
    """Position: name, where names stand at an axis (at 0, 1, 2, …); of panels side by side one alone may bear them."""
    own, which = _ticks(axis), "yaxis" if axis is ax.yaxis else "xaxis"
    if own is None:
        return {}
    for other in [axis, *(getattr(a, which) for a in ax.figure.axes)]:
        said = other.get_major_formatter().format_ticks(own) if _ticks(other) == own else []
        if any(said) and not all(_numeric(t) for t in said):
            return dict(zip(own, said, strict=True))
    return {}


def _ticks(axis: Axis) -> list[float] | None:
    """0, 1, 2, … where fixed ticks stand just there."""
    if axis.get_scale() != "linear" or not isinstance(axis.get_major_locator(), FixedLocator):
        return None
    locs = [float(t) for t in axis.get_major_locator().locs]
    return locs if locs == [float(i) for i in range(len(locs))] else None


def _numeric(text: str) -> bool:
    try:
        float(text.replace("\u2009", "").replace("\u2212", "-"))
    except ValueError:
        return False
    return True


def place(ax: Axes, axis: Axis, value: Any) -> Any:
    """A coordinate: the name of a category; else the number, of the nearest tick where ticks stand at what was measured
    and the curve was moved a little aside.
    """
    if known := categories(ax, axis):
        return known[min(known, key=lambda at: abs(at - float(value)))]
    value = float(value)
    if axis is ax.xaxis and isinstance(axis.get_major_locator(), FixedLocator):
        to = axis.get_transform().transform
        low, high = (float(to(v)) for v in sorted(axis.get_view_interval()))
        near = min(
            axis.get_major_locator().locs, key=lambda tick: abs(float(to(tick)) - float(to(value))), default=None
        )
        aside = math.inf if near is None else abs(float(to(near)) - float(to(value)))
        if aside < NEAR * (high - low) or (aside < math.inf and axis.get_scale() == "linear"):
            return number(near)
    return number(value)


# Which legend entry an artist belongs to.


def look(artist: Any) -> dict[str, Any]:
    """Colour, marker and dash, as far as the artist has them."""
    out: dict[str, Any] = {}
    if isinstance(artist, Line2D):
        out["colour"] = artist.get_color()
        if artist.get_marker() not in ("None", "none", None, "", " "):
            out["marker"] = str(artist.get_marker())
        if artist.get_linestyle() not in ("None", "none", "", " "):
            out["dash"] = artist.get_linestyle()
    elif isinstance(artist, LineCollection):
        out["colour"] = artist.get_colors()[0] if len(artist.get_colors()) else None
    elif isinstance(artist, PathCollection | PolyCollection):
        out["colour"] = artist.get_facecolors()[0] if len(artist.get_facecolors()) else None
    else:
        out["colour"] = artist.get_facecolor()
    if out.get("colour") is not None:
        out["colour"] = mpl.colors.to_hex(out["colour"])
    return out


def label(artist: Any, legends: list[Legend]) -> str:
    """The legend's words for it, of several legends joined; its own label, or "" where no legend knows it."""
    mine, words = look(artist), []
    for one in legends:
        texts = [t.get_text() for t in one.get_texts()]
        looks = [look(h) for h in one.legend_handles if h is not None]
        kinds = [k for k in ("colour", "marker", "dash") if len({x.get(k) for x in looks}) > 1] or ["colour"]
        fit = [
            t
            for t, x in zip(texts, looks, strict=False)
            if all(mine[k] == x.get(k) for k in kinds if k in mine and k in x)
            and any(k in mine and k in x for k in kinds)
        ]
        if fit:
            words.append(" | ".join(fit))
    own = str(artist.get_label())
    return " / ".join(words) or ("" if own.startswith("_") else own)


# --- plans and help ---------------------------------------------------------------------------------------------------


def plans() -> dict[str, Any]:
    """For each campaign file, as it stands and with scale=0.1: its keys in the plan's order (or whose they are), or its
    refusal.
    """
    out: dict[str, Any] = {}
    for path in sorted((ROOT / "campaigns").glob("*.yaml")):
        for more in ((), ("scale=0.1",)):
            settings = [f"campaign={path.stem}", f"results={ROOT}/tests/data/golden/none", *more]
            code, said, problem = storelab(*(w for s in settings for w in ("--set", s)), "plan")
            keys = [line.split()[-1] for line in said.splitlines()]
            name = " ".join([path.stem, *more])
            out[name] = keys if code == 0 else plain(problem.strip(), ROOT)
            if more and out[name] == out[path.stem]:
                out[name] = f"as {path.stem}"
    return out


def cli() -> dict[str, str]:
    """`--help` of every command and sub-command."""
    out: dict[str, str] = {}
    todo: list[tuple[str, ...]] = [()]
    while todo:
        command = todo.pop(0)
        text = done(*command, "--help")
        out[" ".join(["storelab", *command])] = re.sub(r"^Usage: .*?storelab", "Usage: storelab", text)
        for heading, listed in re.findall(r"^(\S[^\n]*):\n((?:  .*\n)+)", text, flags=re.MULTILINE):
            if heading != "Options":
                todo += [(*command, name) for name in re.findall(r"^  ([a-z]+)  ", listed, flags=re.MULTILINE)]
    return out


# --- requests ---------------------------------------------------------------------------------------------------------


def requests() -> dict[str, Any]:
    """`kind of store, workload, engine and what else decides`: requests of an operation, as the engine promises them
    and as its records counted them.
    """
    import pyarrow.parquet as pq

    out: dict[str, Any] = {}
    for path in sorted(GOLDEN.glob("*/raw/*/*/*/run.json")):
        run = json.loads(path.read_text())
        if (
            not run["valid"] or "roles" in run or "part" in run["point"]["axes"]
        ):  # made (tests/support/several.py, soaked.py)
            continue
        name = cost_name(run["store"]["kind"], run["point"]["workload"], run["point"]["axes"])
        rows = [row for table in sorted(path.parent.glob("ops.*.parquet")) for row in pq.read_table(table).to_pylist()]
        entry = out.setdefault(name, {"promised": run["engine"].get("requests_per_operation", {}), "counted": {}})
        for op, values in counted(rows).items():
            entry["counted"][op] = sorted({*entry["counted"].get(op, []), *values})
    return dict(sorted(out.items()))


def cost_name(kind: str, workload: str, axes: dict[str, Any]) -> str:
    """What decides how many requests an operation takes; axes that a record is older than stand at their default."""
    from storelab.workloads import WORKLOADS

    axes = {a.name: a.default for a in WORKLOADS[workload].axes} | axes
    return ", ".join([kind, workload, *(f"{k}={axes[k]}" for k in COSTS if axes.get(k) is not None)])


def counted(rows: Iterable[dict[str, Any]]) -> dict[str, list[float]]:
    """Requests of one operation, all numbers that came, by op; of operations that were good and whose engine can
    tell.
    """
    out: dict[str, set[float]] = {}
    for row in rows:
        if row["error"] is None and row["requests"] is not None and row["count"]:
            out.setdefault(row["op"], set()).add(round(row["requests"] / row["count"], 3))
    return {op: sorted(values) for op, values in out.items()}


def read_json(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text())


COSTS = (
    "engine",
    "object_size",
    "range_size",
    "part_size",
    "parallel_parts",
    "batch",
    "entry_fraction",
    "volume_fraction",
    "merge",
    "max_range_gap",
    "thrift",
    "max_amplification",
    "access",
    "header",
    "transport",
    "split",
    "codec",
    "navigation",
    "cache",
    "read_ahead",
    "operation",
    "target",
)


# --- expected ---------------------------------------------------------------------------------------------------------

SINGLE = {"plans": plans, "cli": cli, "requests": requests}


def to_text(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def expected_of(name: str) -> dict[str, str]:
    folder = GOLDEN / name / "expected"
    return {str(p.relative_to(folder)): p.read_text() for p in sorted(folder.rglob("*")) if p.is_file()}


def update(name: str) -> None:
    if name in SINGLE:
        (GOLDEN / f"{name}.json").write_text(to_text(SINGLE[name]()))
        return
    with tempfile.TemporaryDirectory() as folder:
        made = rebuild(name, Path(folder) / name)
    shutil.rmtree(GOLDEN / name / "expected", ignore_errors=True)
    for path, content in made.items():
        target = GOLDEN / name / "expected" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(to_text(content))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="campaigns, plans, cli, requests; default: all")
    parser.add_argument("--update", action="store_true", required=True, help="write what is expected")
    args = parser.parse_args()
    for name in args.names or [*campaigns(), *SINGLE]:
        update(name)
        print(name)


if __name__ == "__main__":
    main()
