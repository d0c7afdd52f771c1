"""Test the shared parts of benchmarks: counting in a window, saved results and their tables, ports."""

import json
import re
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import common
import counting
import peers
import ports
import pytest
import table
import warp

from storelab import stores
from storelab.core import records

S = 10**9
BEGIN = 1_760_000_000 * S
WINDOW = peers.window(BEGIN, 2.0)

OPERATIONS = [  # (start, end, in s of the window, counted in a window of 2 s)
    *[(-0.4, -0.1, 0.0), (-0.4, 0.0, 0.0), (-0.5, 0.5, 0.5), (0.0, 1.0, 1.0), (0.5, 1.0, 1.0)],
    *[(1.0, 2.0, 1.0), (1.7, 2.1, 0.75), (1.5, 3.5, 0.25), (2.0, 2.5, 0.0), (-1.0, 3.0, 0.5)],
]
STARTS, ENDS = ([WINDOW[0] + round(o[i] * S) for o in OPERATIONS] for i in (0, 1))
COUNTED = sum(o[2] for o in OPERATIONS)


def test_window_is_within_the_run() -> None:
    assert WINDOW[0] > BEGIN and WINDOW[1] - WINDOW[0] == 2 * S and BEGIN + peers.run_s(2.0) * S > WINDOW[1]


def test_operation_counts_by_its_part_in_the_window() -> None:
    found = [counting.in_window([start], [end], WINDOW) for start, end in zip(STARTS, ENDS, strict=True)]
    assert found == pytest.approx([part for _, _, part in OPERATIONS], abs=1e-6)
    at = WINDOW[1]
    assert counting.in_window([at], [at], WINDOW) == 1 and counting.in_window([at], [at], (at, at + S)) == 0


def test_parts_of_neighbouring_windows_make_a_whole() -> None:
    edges = [WINDOW[0] + round(t * S) for t in (-2, -0.2, 0.3, 1.1, 1.9, 4)]
    parts = [counting.in_window(STARTS, ENDS, (a, b)) for a, b in pairwise(edges)]
    assert sum(parts) == pytest.approx(len(OPERATIONS))


def test_cpu_time_is_that_of_the_window() -> None:
    # 10 CPU s before the window, 1 per second in it, 20 after it
    samples = [(BEGIN, 0.0), (WINDOW[0], 10.0), (WINDOW[0] + S, 11.0), (WINDOW[1] + S, 13.0), (WINDOW[1] + 2 * S, 33.0)]
    assert counting.cpu_in_window(samples, WINDOW) == pytest.approx(2.0)
    for part in (samples[:3], samples[2:]):
        with pytest.raises(ValueError):
            counting.cpu_in_window(part, WINDOW)


def test_closed_loop_starts_when_workers_are_free() -> None:
    assert counting.closed_loop(5, [20, 30, 10, 40], workers=2) == [5, 5, 10, 20]
    assert counting.closed_loop(5, [7], workers=2) == [5]
    assert counting.closed_loop(5, [], workers=2) == []


def test_both_sides_are_counted_alike(tmp_path, monkeypatch) -> None:
    """Give the same operations and samples of CPU time as a record of storelab and as output of a peer."""
    samples = [(BEGIN, 1.0), (WINDOW[0], 2.0), (WINDOW[1], 7.0), (WINDOW[1] + S, 100.0)]
    point = SimpleNamespace(key="one", workload="get", axes={"engine": "loadgen"})
    ops = {"client": [0] * len(STARTS), "op": ["GET"] * len(STARTS), "start_ns": STARTS, "end_ns": ENDS}
    records.write_table(tmp_path / "one" / "ops.0.parquet", records.OPS, ops)
    rows = {"host": ["here"] * 5, "what": ["host"] + ["client"] * 4, "name": [""] + ["0"] * 4}
    rows["time_ns"] = [BEGIN, *(t for t, _ in samples)]
    rows |= {"cpu_user_s": [77.0, *(0.75 * c for _, c in samples)], "cpu_system_s": [7.0, *(c / 4 for _, c in samples)]}
    records.write_table(tmp_path / "one" / "monitor.0.parquet", records.MONITOR, rows)
    monkeypatch.setattr(peers.measure, "point", lambda *_: SimpleNamespace(to_json=lambda: {"start_ns": BEGIN}))
    cell, conf = peers.Cell(), SimpleNamespace(raw=tmp_path, scratch=str(tmp_path))
    peers.ours(conf, [], point, 2.0, cell)

    def watched(command: list[str], env: dict[str, str], seconds: float):
        assert seconds == peers.run_s(2.0)
        job = json.loads(Path(command[-1]).read_text())
        Path(job["times"]).write_text(json.dumps({"start_ns": STARTS, "end_ns": ENDS}))
        return BEGIN, samples

    monkeypatch.setattr(peers, "watched", watched)
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


def test_table_names_figures_and_patterns() -> None:
    names = table.named(README)
    assert names == {"one": ["rate", "<kind>_s", "worst"], "two": ["other"]}
    assert table.unnamed(["rate", "minio_s", "minio_ms"], names["one"]) == ["minio_ms"]
    assert table.unmade(["rate", "worst"], names["one"]) == ["<kind>_s"]


def test_measured_figures_come_from_the_files() -> None:
    results = {"one": result("one", rate=(1234.5, 0.98765, 20000.0), minio_s=(0.5, 0.5, 0.5))}
    text = table.made(README, results)
    assert "| `one.py` | `rate` | 3 | 1 234 [0.988, 20 000] |" in text
    assert "|  | `minio_s` | 3 | 0.5 |" in text
    assert "| `one.py` | 2026-01-02 | `abc` | 2 | 6.1 | minio 7 |" in text
    assert table.problems(text, results) == []
    assert table.made(text, results) == text


def test_peers_have_a_row_for_each_cell() -> None:
    same = {"cells_beyond": (0, 0, 0), "seaweedfs_get_16MB_8": (1.2, 1.1, 1.3), "versitygw_put_4kB_32": (2, 2, 2)}
    cpu = {"seaweedfs_get_16MB_8_cpu_warp": (0.25, 0, 1), "seaweedfs_get_16MB_8_cpu_storelab_loadgen": (0.5, 0, 1)}
    lines = table.cells(result("peers", **same, **cpu)).splitlines()
    assert lines == [
        "| cell | our best over the best peer | storelab loadgen | warp |",
        "|---|---|---|---|",
        "| seaweedfs get 16 MB, 8 connections | 1.2 [1.1, 1.3] | 0.5 | 0.25 |",
        "| versitygw put 4 kB, 32 connections | 2 |  |  |",
    ]


def test_differences_between_table_and_files_are_problems() -> None:
    results = {"one": result("one", rate=(1, 1, 1))}
    text = table.made(README, results).replace("| `rate` | 3 | 1 |", "| `rate` | 3 | 2 |")
    assert len(table.problems(text, results)) == len(table.problems(README, results)) == 1
    results = {"two": result("two", other=(1, 1, 1), more=(1, 1, 1))}
    unnamed, old = table.problems(table.made(README, results), results)
    assert unnamed.startswith("results/two.json: more ") and old.startswith("results/two.json: ")
    assert [p.partition(":")[0] for p in table.problems(README, {"three": result("three")})] == ["results/three.json"]


def test_readme_matches_saved_results() -> None:
    assert table.problems((table.HERE / "README.md").read_text(), table.read(table.HERE / "results")) == []


def test_ceilings_are_medians_of_the_kept_runs() -> None:
    """10 000 puts of 4 kB a second are 40 MB/s. 0.05 ms of CPU each take half a second of two seconds of two cores."""
    put = {"per_s": (10_000, 9_000, 12_000), "client_ms": (0.05, 0.04, 0.06), "server_ms": (0.02, 0.01, 0.03)}
    get = {"per_s": (500, 400, 600), "client_ms": (1, 1, 1), "server_ms": (2, 2, 2)}
    figures = {f"put_4kB_s5cmd_{n}": v for n, v in put.items()}
    figures |= {f"get_range_16MB_loadgen_{n}": v for n, v in get.items()}
    kept = result("ceilings", **figures) | {"n": 3, "cpu_model": "a processor"}
    text = table.page(f"a\n{table.BEGIN}\nold\n{table.END}\nz", {"ceilings": kept})
    assert "| put 4 kB | s5cmd | 10 000 [9 000, 12 000] | 40 | 0.05 ms, 0.02 ms | 25 %, 10 % |" in text
    assert "| get_range 4 kB of 16 MB | loadgen | 500 [400, 600] | 2 | 1 ms, 2 ms | 25 %, 50 % |" in text
    assert "old" not in text and text.startswith("a\n") and text.endswith("\nz") and "Medians of 3 runs" in text
    shown = table.CALIBRATION.read_text()
    assert table.page(shown, table.read(table.HERE / "results")) == shown, "run benchmarks/table.py"


def test_every_benchmark_is_in_the_readme() -> None:
    """A script that calls `report` is a benchmark."""
    calls = re.compile(r"^    report\($|^    report\(\"", re.MULTILINE)
    scripts = {p.stem for p in table.HERE.glob("*.py") if calls.search(p.read_text())}
    assert scripts == set(table.named((table.HERE / "README.md").read_text()))


def test_kept_results_name_their_origin(tmp_path) -> None:
    line = {"name": "one", "n": 1, "figures": {"rate": common.figure([3.0, 1.0, 2.0])}}
    common.keep(line, True, {"minio": "7"}, tmp_path)
    kept = json.loads((tmp_path / "one.quick.json").read_text())
    assert kept["figures"] == {"rate": {"median": 2.0, "low": 1.0, "high": 3.0}}
    assert kept["servers"] == {"minio": "7"} and kept["quick"] is True
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", kept["date"])
    assert kept["usable_cores"] >= 1 and kept["kernel"] and "commit" in kept


def test_warp_is_built_only_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(warp, "tools_folder", lambda: tmp_path)
    monkeypatch.setattr(warp.golang, "present", lambda program, tools: program is warp.WARP and tools == tmp_path)
    monkeypatch.setattr(warp.golang, "install", lambda *_: pytest.fail("built again"))
    warp.main()
    shown = capsys.readouterr()
    assert shown.out + shown.err == f"warp: {warp.WARP.parts(tmp_path)[0].what}: {tmp_path / 'bin' / 'warp'}\n"


@pytest.fixture
def blocks() -> list[range]:
    return [range(first, first + 100) for first in (ports.block(100) for _ in range(4))]


def test_port_blocks_avoid_each_other_and_default_ports(blocks):
    taken = set()
    for kind in filter(lambda kind: kind.port_block, map(stores.load, stores.KINDS)):
        first = kind.Settings.model_fields["port"].default
        for start in (first, first + kind.second_block):
            taken |= set(range(start, start + kind.port_block))
    for i, block in enumerate(blocks):
        both = {*block, *(port + 10000 for port in block)}
        assert not both & taken and max(both) < 32768
        assert not any({*other} & both for other in blocks[:i])


def test_released_ports_are_given_again(blocks):
    before = ports.held()
    first = ports.block()
    more = ports.held() - before
    assert min(more) == first and len(more) == 4, "128 ports"
    ports.release(more)
    assert ports.held() == before and ports.block() == first


def test_blocks_have_room_for_three_deployments():
    beyond = [k for k in stores.KINDS if 3 * stores.load(k).port_block > ports.SIZE]
    assert beyond == ["ceph"], "its tests reserve the number that they deploy"


def test_ports_10000_above_a_block_avoid_default_ports_too():
    """gRPC listens at port + 10000: a block at versitygw's port, or 10000 below it, is not given; the one before is."""
    first = stores.load("versitygw").Settings.model_fields["port"].default
    for at in (first - 10000, first):
        assert ports._usual(at, 1) and ports._usual(at - 99, 100) and not ports._usual(at - 100, 100)
