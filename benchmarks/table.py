"""Generate the section `Measured` of benchmarks/README.md and the table of docs/calibration.md from benchmarks/results.

Usage: `benchmarks/table.py [--check]`. Without an option, both are written. With `--check`, problems are printed, and
the exit code is 1 if there are any: the section differs from the files, a figure is missing in the README's table of
benchmarks, or an old row is listed for a script that has a file.
"""

import argparse
import re
import sys
from pathlib import Path
from typing import Any

from storelab.core.records import read_json, write_atomic

HERE = Path(__file__).resolve().parent
CALIBRATION = HERE.parent / "docs" / "calibration.md"
BEGIN, END = "<!-- made by benchmarks/table.py, from benchmarks/results -->", "<!-- end of what table.py makes -->"
OLD = "## Measured before results were kept, commits unknown"
CELL_BY_CELL = (
    "`peers.py`, cell by cell: the rate of our best engine divided by that of the best peer in the same repetition, "
    "and the CPU time of each client. Values are medians: ms per operation for 4 kB, s per GB for larger objects. "
    "An empty field means that the client does not run in this cell."
)
MOST_ROWS = 40  # of one file; a longer file shows only figures that the table of benchmarks lists without a pattern


def _rows(text: str) -> list[tuple[str, list[str]]]:
    """Return (script, cells) of the rows of all tables; a row without a script has that of the row above."""
    out, script = [], ""
    for line in text.splitlines():
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            script = ""
        elif found := re.fullmatch(r"`(\S+)\.py( --quick)?`", cells[0]):
            script = f"{found.group(1)}{'.quick' if found.group(2) else ''}"
            out.append((script, cells))
        elif script and not cells[0]:
            out.append((script, cells))
    return out


def named(readme: str) -> dict[str, list[str]]:
    """Return script -> names of its figures, in the order of the table of benchmarks; `<…>` matches any word."""
    out: dict[str, list[str]] = {}
    for script, cells in _rows(readme.partition("\n## ")[0]):
        out.setdefault(script, []).extend(n for part in re.findall(r"`([^`]+)`", cells[1]) for n in part.split())
    return out


def fits(figure: str, name: str) -> bool:
    """Return whether a figure has this name, which may be a pattern."""
    return re.fullmatch(re.sub(r"<\w+>", r"\\w+", name), figure) is not None


def unnamed(figures: list[str], names: list[str]) -> list[str]:
    """Return the figures that match none of the names."""
    return [f for f in figures if not any(fits(f, n) for n in names)]


def unmade(figures: list[str], names: list[str]) -> list[str]:
    """Return the names that match none of the figures."""
    return [n for n in names if not any(fits(f, n) for f in figures)]


def number(value: float) -> str:
    """Format a number with three digits and without an exponent; large numbers have groups of three."""
    if abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", " ")
    return f"{float(f'{value:.3g}'):.10f}".rstrip("0").rstrip(".") if value else "0"


def value(figure: dict[str, Any]) -> str:
    middle, low, high = (number(figure[k]) for k in ("median", "low", "high"))
    return middle if low == high else f"{middle} [{low}, {high}]"


def section(results: dict[str, dict[str, Any]], names: dict[str, list[str]]) -> str:
    """Return the results, by file name without extension, as two Markdown tables: values, and conditions."""
    if not results:
        return "No result is kept yet.\n"
    found = ["| script | figure | n | measured |", "|---|---|---|---|"]
    about = ["| script | date | commit | cores | kernel | servers |", "|---|---|---|---|---|---|"]
    order = list(names)
    for label, result in sorted(results.items(), key=lambda r: (order.index(r[1]["name"]), r[0])):
        script = f"`{result['name']}.py{' --quick' if result['quick'] else ''}`"
        figures = result["figures"]
        if len(figures) > MOST_ROWS:
            figures = {k: f for k, f in figures.items() if k in names[result["name"]]}
        for i, (key, figure) in enumerate(figures.items()):
            found.append(f"| {'' if i else script} | `{key}` | {figure['n']} | {value(figure)} |")
        if left_out := len(result["figures"]) - len(figures):
            first = "" if figures else script
            found.append(f"| {first} | {left_out}{' more' if figures else ' figures'} | | in `results/{label}.json` |")
        servers = ", ".join(f"{kind} {version}" for kind, version in result["servers"].items())
        facts = (result["date"], f"`{result['commit']}`", result["usable_cores"], result["kernel"], servers)
        about.append(f"| {script} | {' | '.join(map(str, facts))} |")
    peers = [CELL_BY_CELL, "", cells(results["peers"])] if "peers" in results else []
    return "\n".join([*found, "", *about, "", *peers])


def cells(result: dict[str, Any]) -> str:
    """Return the cells of peers.py as a Markdown table: ratios of rates, and the client's CPU time.

    The CPU time is per operation, from 16 MB on per GB.
    """
    found = result["figures"]
    ours = [n for n in found if re.fullmatch(r"(versitygw|seaweedfs)_(put|get)_\w+_\d+", n)]
    sides = list(
        dict.fromkeys(n.partition("_cpu_")[2] for n in found if n.partition("_cpu_")[0] in ours and "_cpu_" in n)
    )
    columns = sorted(sides, key=lambda side: (not side.startswith("storelab_"), side))
    out = [
        f"| cell | our best over the best peer | {' | '.join(c.replace('_', ' ') for c in columns)} |",
        "|---" * (2 + len(columns)) + "|",
    ]
    for name in ours:
        server, operation, size, connections = name.split("_")
        first = f"{server} {operation} {re.sub(r'(?=[kM]B)', ' ', size)}, {connections} connections"
        cpu = (found.get(f"{name}_cpu_{c}") for c in columns)
        out.append(f"| {first} | {value(found[name])} | {' | '.join(number(f['median']) if f else '' for f in cpu)} |")
    return "\n".join([*out, ""])


def read(folder: Path) -> dict[str, dict[str, Any]]:
    return {path.stem: read_json(path) for path in sorted(folder.glob("*.json"))}


def made(readme: str, results: dict[str, dict[str, Any]]) -> str:
    """Return the README with its section generated again."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{section(results, named(readme))}\n{END}{after}"


CELLS = ("put_4kB", "get_4kB", "get_range_16MB", "put_16MB", "get_16MB")  # of ceilings.py, in the order of the page
WORDS = {"get_range_16MB": "get_range 4 kB of 16 MB"}
MOVED_MB = {"4kB": 0.004, "16MB": 16}


def ceilings(result: dict[str, Any]) -> str:
    """Return a Markdown table of the rates of clients at the near-null server, for docs/calibration.md."""
    found = result["figures"]
    out = [
        f"Medians of {result['n']} runs, with the lowest and the highest rate; {result['usable_cores']} cores, "
        f"{result['cpu_model']}, {result['date']}, commit `{result['commit']}`.",
        "",
        "| operation | engine | operations/s | MB/s | CPU of an operation: client, null server "
        "| share of the processors: client, null server |",
        "|---|---|---|---|---|---|",
    ]
    for cell in CELLS:
        operation, size = cell.rsplit("_", 1)
        first = WORDS.get(cell, f"{operation} {size.replace('kB', ' kB').replace('MB', ' MB')}")
        for name in sorted(n for n in found if n.startswith(f"{cell}_") and n.endswith("_per_s")):
            engine = name.removeprefix(f"{cell}_").removesuffix("_per_s")
            rate = found[name]["median"]
            cpu = [found[f"{cell}_{engine}_{side}_ms"]["median"] for side in ("client", "server")]
            moved = rate * (0.004 if operation == "get_range" else MOVED_MB[size])
            shares = [f"{100 * ms / 1000 * rate / result['usable_cores']:.0f} %" for ms in cpu]
            times = ", ".join(f"{number(ms)} ms" for ms in cpu)
            out.append(
                f"| {first} | {engine} | {value(found[name])} | {number(moved)} | {times} | {', '.join(shares)} |"
            )
            first = ""
    return "\n".join([*out, ""])


def page(text: str, results: dict[str, dict[str, Any]]) -> str:
    """Return docs/calibration.md with its table generated again; unchanged if there is no result."""
    if "ceilings" not in results:
        return text
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{ceilings(results['ceilings'])}\n{END}{rest.partition(END)[2]}"


def problems(readme: str, results: dict[str, dict[str, Any]]) -> list[str]:
    """Return the problems, one line each."""
    names = named(readme)
    out = [f"results/{label}.json: no benchmark {r['name']}" for label, r in results.items() if r["name"] not in names]
    if out:
        return out
    for label, result in results.items():
        out += [
            f"results/{label}.json: {f} is not named" for f in unnamed(list(result["figures"]), names[result["name"]])
        ]
    old = {script for script, _ in _rows(readme.partition(OLD)[2])}
    out += [f"results/{label}.json: its old rows are still in the README" for label in results if label in old]
    if made(readme, results) != readme:
        out.append("the section Measured is not what the files say: run benchmarks/table.py")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, print problems")
    check = parser.parse_args().check
    path, results = HERE / "README.md", read(HERE / "results")
    if not check:
        write_atomic(path, made(path.read_text(), results).encode())
        write_atomic(CALIBRATION, page(CALIBRATION.read_text(), results).encode())
    wrong = problems(path.read_text(), results)
    if page(CALIBRATION.read_text(), results) != CALIBRATION.read_text():
        wrong.append("docs/calibration.md is not what results/ceilings.json says: run benchmarks/table.py")
    for problem in wrong:
        print(f"benchmarks/README.md: {problem}", file=sys.stderr)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
