"""Test how `benchmarks/demo.py` divides the time of jobs, and which environment it gives them."""

import json

import demo
import pytest
from common import BIN


def test_time_of_concurrent_jobs_counts_once() -> None:
    assert demo.covered([(5, 6), (0, 3), (1, 2), (2, 4)]) == 5
    assert demo.covered([]) == 0


def test_parts_are_jobs_by_rule_and_the_rest(tmp_path) -> None:
    """Figures and page run at the same time, a job with two outputs is listed twice, one has not ended."""
    noted = {
        **{"a": ("measure", 10.0, 13.0), "b": ("measure", 14.0, 17.0), "i": ("measure", 1.0, None)},
        **{"c": ("make_tables", 17.0, 19.0), "@d/e": ("make_tables", 17.0, 19.0), "f": ("draw_figures", 19.0, 24.0)},
        **{"g": ("write_report", 19.0, 22.0), "h": ("typeset_paper", 24.0, 26.0)},
    }
    for name, job in noted.items():
        path = tmp_path / ".snakemake/metadata" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(dict(zip(("rule", "starttime", "endtime"), job, strict=True))))
    found = demo.parts(demo.jobs(tmp_path), whole_s=20.0)
    expected = {"measure_s": 6.0, "tables_s": 2.0, "figures_s": 5.0, "paper_s": 2.0, "report_s": 3.0}
    assert found == expected | {"other_s": pytest.approx(5.0)}


def test_new_machine_has_empty_caches_and_no_environment(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", f"{BIN}:/usr/bin:/bin")
    monkeypatch.setenv("CAMPAIGN", "reference")
    env = demo.environ(tmp_path)
    assert env["PATH"] == "/usr/bin:/bin" and "CAMPAIGN" not in env
    assert {env[name] for name in ("STORELAB_TOOLS", "XDG_CACHE_HOME")} == {f"{tmp_path}/tools", f"{tmp_path}/cache"}


def test_every_rule_of_a_part_is_there() -> None:
    text = "\n".join(path.read_text() for path in (demo.ROOT / "rules").glob("*.smk"))
    assert not [rule for rules in demo.PARTS.values() for rule in rules if f"rule {rule}:" not in text]
