"""What benchmarks count, and what they keep: both sides of `peers.py` alike, the README as the results say."""

import json
import re
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import common
import counting
import peers
import pytest
import table
import warp

from storelab.core import records

S = 10**9
BEGIN = 1_760_000_000 * S
WINDOW = peers.window(BEGIN, 2.0)

# (start, end, in s of the window) of operations, and how much of each is in a window of 2 s.
OPERATIONS = [
    (-0.4, -0.1, 0.0),  # ended before it
    (-0.4, 0.0, 0.0),  # ended as it began
    (-0.5, 0.5, 0.5),  # began before it
    (0.0, 1.0, 1.0),
    (0.5, 1.0, 1.0),
    (1.0, 2.0, 1.0),  # ended as it ended
    (1.7, 2.1, 0.75),  # ended after it: a quarter of its bytes came too late
    (1.5, 3.5, 0.25),
    (2.0, 2.5, 0.0),
    (-1.0, 3.0, 0.5),  # longer than the window: half of it
]
COUNTED = 5.0


def times() -> tuple[list[int], list[int]]:
    """Starts and ends of OPERATIONS, UTC ns."""
    starts, ends = ([WINDOW[0] + round(o[i] * S) for o in OPERATIONS] for i in (0, 1))
    return starts, ends


def test_the_window_lies_within_the_run() -> None:
    assert WINDOW[0] > BEGIN
    assert WINDOW[1] - WINDOW[0] == 2 * S
    assert BEGIN + peers.run_s(2.0) * S > WINDOW[1]


@pytest.mark.parametrize(("start", "end", "part"), OPERATIONS)
def test_an_operation_counts_by_its_part_in_the_window(start: float, end: float, part: float) -> None:
    found = counting.in_window([WINDOW[0] + round(start * S)], [WINDOW[0] + round(end * S)], WINDOW)
    assert found == pytest.approx(part, abs=1e-6)


def test_parts_of_neighbouring_windows_make_a_whole() -> None:
    """No operation is lost or counted twice between windows."""
    starts, ends = times()
    edges = [WINDOW[0] + round(t * S) for t in (-2, -0.2, 0.3, 1.1, 1.9, 4)]
    parts = [counting.in_window(starts, ends, (a, b)) for a, b in pairwise(edges)]
    assert sum(parts) == pytest.approx(len(OPERATIONS))


def test_an_operation_without_length_counts_in_one_window_only() -> None:
    at = WINDOW[1]
    assert counting.in_window([at], [at], WINDOW) == 1
    assert counting.in_window([at], [at], (at, at + S)) == 0


def test_cpu_time_is_that_of_the_window() -> None:
    """10 CPU s before the window, 1 per second in it, 20 after it."""
    samples = [(BEGIN, 0.0), (WINDOW[0], 10.0), (WINDOW[0] + S, 11.0), (WINDOW[1] + S, 13.0), (WINDOW[1] + 2 * S, 33.0)]
    assert counting.cpu_in_window(samples, WINDOW) == pytest.approx(2.0)
    with pytest.raises(ValueError, match="do not span"):
        counting.cpu_in_window(samples[:3], WINDOW)
    with pytest.raises(ValueError, match="do not span"):
        counting.cpu_in_window(samples[2:], WINDOW)


def test_starts_of_a_closed_loop() -> None:
    """Two workers: the third operation begins when the first one ends, in whatever order the lines came."""
    assert counting.closed_loop(5, [20, 30, 10, 40], workers=2) == [5, 5, 10, 20]
    assert counting.closed_loop(5, [7], workers=2) == [5]
    assert counting.closed_loop(5, [], workers=2) == []


def test_both_sides_are_counted_alike(tmp_path, monkeypatch) -> None:
    """The same operations and samples of CPU time, as a record of ours and as a peer tells them."""
    starts, ends = times()
    samples = [(BEGIN, 1.0), (WINDOW[0], 2.0), (WINDOW[1], 7.0), (WINDOW[1] + S, 100.0)]
    point = SimpleNamespace(key="one", workload="get", axes={"engine": "loadgen"})
    ops = {"client": [0] * len(starts), "op": ["GET"] * len(starts), "start_ns": starts, "end_ns": ends}
    records.write_table(tmp_path / "one" / "ops.0.parquet", records.OPS, ops)
    rows = {"host": ["here"] * 5, "what": ["host"] + ["client"] * 4, "name": [""] + ["0"] * 4}
    rows["time_ns"] = [BEGIN, *(t for t, _ in samples)]
    rows |= {"cpu_user_s": [77.0, *(0.75 * c for _, c in samples)], "cpu_system_s": [7.0, *(c / 4 for _, c in samples)]}
    records.write_table(tmp_path / "one" / "monitor.0.parquet", records.MONITOR, rows)
    monkeypatch.setattr(peers.measure, "point", lambda *_: {"start_ns": BEGIN})
    cell, conf = peers.Cell(), SimpleNamespace(raw=tmp_path, scratch=str(tmp_path))
    peers.ours(conf, [], point, 2.0, cell)

    def told(command: list[str], env: dict[str, str], seconds: float):
        assert seconds == peers.run_s(2.0)
        job = json.loads(Path(command[-1]).read_text())
        Path(job["times"]).write_text(json.dumps({"start_ns": starts, "end_ns": ends}))
        return BEGIN, samples

    monkeypatch.setattr(peers, "watched", told)
    monkeypatch.setattr(
        peers, "job_of", lambda *a: {"times": f"{a[-1]}/times.json", "run_s": peers.run_s(a[-2].seconds["get"])}
    )
    store = SimpleNamespace(credentials=lambda _: SimpleNamespace(environ=dict))
    peers.peer("s5cmd", conf, store, point, peers.SIZES["4kB_8"], cell)

    assert cell.rates["storelab loadgen"] == cell.rates["s5cmd"] == [pytest.approx(COUNTED / 2)]
    assert cell.cpu["storelab loadgen"] == cell.cpu["s5cmd"] == [pytest.approx(5.0 / COUNTED)]


README = """# Benchmarks
| script | figures | meaning | aim |
|---|---|---|---|
| `one.py` | `rate` (`<kind>_s`) | … | 1 |
| | `worst` | … | 2 |
| `two.py` | `other` | … | 3 |

## Measured

<!-- made by benchmarks/table.py, from benchmarks/results -->
<!-- end of what table.py makes -->

## Measured before results were kept, commits unknown

| script | figure | n | measured |
|---|---|---|---|
| `two.py` | `other` | 3 | 7 |
"""


def result(name: str, **figures: tuple[float, float, float]) -> dict:
    out = {k: dict(zip(("median", "low", "high"), f, strict=True)) | {"n": 3} for k, f in figures.items()}
    facts = {"date": "2026-01-02", "commit": "abc", "usable_cores": 2, "kernel": "6.1", "servers": {"minio": "7"}}
    return {"name": name, "figures": out, "quick": False} | facts


def test_the_table_names_figures_and_patterns() -> None:
    names = table.named(README)
    assert names == {"one": ["rate", "<kind>_s", "worst"], "two": ["other"]}
    assert table.unnamed(["rate", "minio_s", "minio_ms"], names["one"]) == ["minio_ms"]
    assert table.unmade(["rate", "worst"], names["one"]) == ["<kind>_s"]


def test_measured_is_what_the_files_say() -> None:
    results = {"one": result("one", rate=(1234.5, 0.98765, 20000.0), minio_s=(0.5, 0.5, 0.5))}
    text = table.made(README, results)
    assert "| `one.py` | `rate` | 3 | 1 234 [0.988, 20 000] |" in text
    assert "|  | `minio_s` | 3 | 0.5 |" in text
    assert "| `one.py` | 2026-01-02 | `abc` | 2 | 6.1 | minio 7 |" in text
    assert table.problems(text, results) == []
    assert table.made(text, results) == text


def test_peers_cell_by_cell() -> None:
    same = {"cells_beyond": (0, 0, 0), "seaweedfs_get_16MB_8": (1.2, 1.1, 1.3), "versitygw_put_4kB_32": (2, 2, 2)}
    cpu = {"seaweedfs_get_16MB_8_cpu_warp": (0.25, 0, 1), "seaweedfs_get_16MB_8_cpu_storelab_loadgen": (0.5, 0, 1)}
    lines = table.cells(result("peers", **same, **cpu)).splitlines()
    assert lines == [
        "| cell | our best over the best peer | storelab loadgen | warp |",
        "|---|---|---|---|",
        "| seaweedfs get 16 MB, 8 connections | 1.2 [1.1, 1.3] | 0.5 | 0.25 |",
        "| versitygw put 4 kB, 32 connections | 2 |  |  |",
    ]


def test_a_table_that_is_not_what_the_files_say_is_a_problem() -> None:
    results = {"one": result("one", rate=(1, 1, 1))}
    text = table.made(README, results).replace("| `rate` | 3 | 1 |", "| `rate` | 3 | 2 |")
    assert [p for p in table.problems(text, results) if "not what the files say" in p]
    assert [p for p in table.problems(README, results) if "not what the files say" in p]


def test_figures_without_a_name_and_rows_beside_a_file_are_problems() -> None:
    results = {"two": result("two", other=(1, 1, 1), more=(1, 1, 1))}
    assert table.problems(table.made(README, results), results) == [
        "results/two.json: more is not named",
        "results/two.json: its old rows are still in the README",
    ]
    assert table.problems(README, {"three": result("three")}) == ["results/three.json: no benchmark three"]


def test_the_readme_is_what_the_kept_results_say() -> None:
    assert table.problems((table.HERE / "README.md").read_text(), table.read(table.HERE / "results")) == []


def test_the_ceilings_of_the_page_are_medians_of_the_kept_runs() -> None:
    """10 000 puts of 4 kB a second are 40 MB/s; 0.05 ms of CPU each take half a second of the two seconds of two cores."""
    kept = result(
        "ceilings",
        put_4kB_s5cmd_per_s=(10_000, 9_000, 12_000),
        put_4kB_s5cmd_client_ms=(0.05, 0.04, 0.06),
        put_4kB_s5cmd_server_ms=(0.02, 0.01, 0.03),
        get_range_16MB_loadgen_per_s=(500, 400, 600),
        get_range_16MB_loadgen_client_ms=(1, 1, 1),
        get_range_16MB_loadgen_server_ms=(2, 2, 2),
    )
    kept |= {"n": 3, "cpu_model": "a processor"}
    text = table.page(f"a\n{table.BEGIN}\nold\n{table.END}\nz", {"ceilings": kept})
    assert "| put 4 kB | s5cmd | 10 000 [9 000, 12 000] | 40 | 0.05 ms, 0.02 ms | 25 %, 10 % |" in text
    assert "| get_range 4 kB of 16 MB | loadgen | 500 [400, 600] | 2 | 1 ms, 2 ms | 25 %, 50 % |" in text
    assert "old" not in text and text.startswith("a\n") and text.endswith("\nz") and "Medians of 3 runs" in text
    shown = table.CALIBRATION.read_text()
    assert table.page(shown, table.read(table.HERE / "results")) == shown, "run benchmarks/table.py"


def test_every_benchmark_is_in_the_readme() -> None:
    """A script that reports is a benchmark."""
    scripts = {
        p.stem for p in table.HERE.glob("*.py") if re.search(r"^    report\($|^    report\(\"", p.read_text(), re.M)
    }
    assert scripts == set(table.named((table.HERE / "README.md").read_text()))


def test_what_is_kept_says_where_it_comes_from(tmp_path) -> None:
    line = {"name": "one", "n": 1, "figures": {"rate": common.figure([3.0, 1.0, 2.0])}}
    common.keep(line, True, {"minio": "7"}, tmp_path)
    kept = json.loads((tmp_path / "one.quick.json").read_text())
    assert kept["figures"] == {"rate": {"median": 2.0, "low": 1.0, "high": 3.0}}
    assert kept["servers"] == {"minio": "7"} and kept["quick"] is True
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", kept["date"])
    assert kept["usable_cores"] >= 1 and kept["kernel"] and "commit" in kept


def test_warp_that_is_built_is_found_and_not_built_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(warp, "tools_folder", lambda: tmp_path)
    monkeypatch.setattr(warp.golang, "present", lambda program, tools: program is warp.WARP and tools == tmp_path)
    monkeypatch.setattr(warp.golang, "install", lambda *_: pytest.fail("built again"))
    warp.main()
    told = capsys.readouterr()
    assert told.out + told.err == f"warp: {warp.WARP.parts(tmp_path)[0].what}: {tmp_path / 'bin' / 'warp'}\n"
