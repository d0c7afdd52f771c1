"""Output for machines: `--json` prints what the schema in docs/ defines and nothing else; exit codes; completion."""

import ast
import json
import os
import re
import shutil
import signal
import subprocess
from types import SimpleNamespace

import click
import command_line
import jsonschema
import pandas as pd
import pyarrow.parquet as pq
import pytest
from machine_answers import SCHEMA, valid
from paths import ROOT

from campaigns import built, copied
from storelab import __version__
from storelab.analysis.parts import derived
from storelab.analysis.tables import build
from storelab.cli import analysis, cli, main, measuring, stores
from storelab.cli.answers import ANSWERS
from storelab.cli.reference import SHELLS
from storelab.core.errors import Exit, MeasurementFailed, UserError
from storelab.gang import inspect
from storelab.host import environment
from storelab.measure import doctor
from storelab.stores.base import Status


def json_answer(*arguments: str, code: int = 0) -> dict:
    """Return what `storelab … --json` prints."""
    ended, out, err = command_line.storelab(*map(str, arguments), "--json")
    assert ended == code, err
    words = [a for a in arguments if not str(a).startswith("-") and "=" not in str(a)]
    return valid(str(words[0]), out)


@pytest.fixture(scope="module")
def campaign():
    """Return a campaign of three points on each of two stores, three runs each, with tables."""
    return built("two_stores")


def test_schema_is_valid_and_closed():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert set(SCHEMA["$defs"]) == {name.replace(" ", "_") for name in ANSWERS}
    for of_command in SCHEMA["$defs"].values():
        for part in (of_command, *of_command.get("$defs", {}).values()):
            assert part["additionalProperties"] is False
            assert sorted(part["required"]) == sorted(part["properties"]), "unknown values are null, not left out"
            assert all(p.get("description") or "$ref" in p for p in part["properties"].values())


def test_undeclared_keys_are_refused():
    answer = {"command": "seal", "schema_version": 2, "storelab": __version__, "folder": "f", "points": 1, "failed": 0}
    answer |= {"sealed": "2026-11-23T16:40:00Z", "already": False}
    assert valid("seal", json.dumps(answer))
    for wrong in (answer | {"more": 1}, {k: v for k, v in answer.items() if k != "failed"}, answer | {"points": "1"}):
        with pytest.raises(jsonschema.ValidationError):
            valid("seal", json.dumps(wrong))


def test_commands_with_json_have_a_schema():
    taking = set()
    for name in cli.list_commands(None):
        command = cli.get_command(None, name)
        inner = {f"{name} {sub}": c for sub, c in getattr(command, "commands", {}).items()}
        for typed, each in ({name: command} | inner).items():
            if any("--json" in p.opts for p in each.params):
                taking.add(typed)
    assert taking == set(ANSWERS)
    assert {"check", "plan", "status", "verdict", "compare", "size", "doctor"} <= taking


def test_plan(tmp_path):
    answer = json_answer("--set", "campaign=smoke", "--set", f"results={tmp_path}", "plan")
    _, out, _ = command_line.storelab("--set", "campaign=smoke", "--set", f"results={tmp_path}", "plan")
    lines = [line.split() for line in out.splitlines()]
    assert [(str(p["order"]), p["key"]) for p in answer["points"]] == [(line[0], line[-1]) for line in lines]
    assert {p["state"] for p in answer["points"]} == {"to do"}
    first = answer["points"][0]
    assert first["clients"] == first["axes"]["clients"] and first["duration_s"] > 0


def test_plan_marks_measured_points():
    answer = json_answer("--set", "campaign=reference", "plan")
    runs = pq.read_table(ROOT / "results/reference/raw/runs.parquet").to_pylist()
    heads = {row["point"] for row in runs if row["file"] == "run.json"}
    assert {p["key"] for p in answer["points"] if p["state"] == "measured"} == heads and len(heads) == 418


def test_check(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "loadgen").write_text("#!/bin/sh\n")  # only looked for
    (tmp_path / "bin" / "loadgen").chmod(0o755)
    monkeypatch.setenv("STORELAB_TOOLS", str(tmp_path))
    answer = json_answer("--set", "campaign=smoke", "--set", f"results={tmp_path}", "check")
    points = json_answer("--set", "campaign=smoke", "--set", f"results={tmp_path}", "plan")["points"]
    assert answer["points"] == len(points) == sum(w["points"] for s in answer["stores"] for w in s["workloads"])
    for of in answer["stores"]:
        own = [p for p in points if p["store"] == of["store"]]
        assert sum(w["measuring_s"] for w in of["workloads"]) == pytest.approx(sum(p["duration_s"] for p in own))
        assert of["estimated_s"] == pytest.approx(sum(p["duration_s"] + 2 for p in own))
    assert (answer["measured"], answer["sealed"], answer["campaign"]) == (0, False, "smoke")


def test_check_of_a_sealed_campaign_notes_missing_stores(tmp_path, monkeypatch):
    monkeypatch.setenv("STORELAB_TOOLS", str(tmp_path))
    answer = json_answer("--set", "campaign=reference", "check")
    assert answer["sealed"] and answer["points"] == answer["measured"] == 418
    assert [note for note in answer["notes"] if "store versitygw: the program versitygw is not installed" in note]


def test_estimate_names_work_that_may_end_early(capsys):
    numbers = {"staged_objects": 0, "staged_bytes": 0, "free_bytes": None, "scratch_bytes": 0, "estimated_s": 1204.0}
    for workload, early in (("put", False), ("publish", True), ("roles-mine", False)):
        works = [{"workload": name, "points": 1, "measuring_s": 600.0} for name in ("get", workload)]
        measuring._show_demands("mine", [{"store": "a", "workloads": works, "buckets": 1, **numbers}])
        printed = " ".join(capsys.readouterr().out.split())
        assert "20 min" in printed and ("; these can end earlier: publish" in printed) == early, workload


def test_status(monkeypatch):
    states = [
        Status("a", "minio", "up", "1.2", ["http://127.0.0.1:9000"], {"minio": 7}, "fine"),
        Status("b", "s3", "external"),
    ]
    known = {s.name: SimpleNamespace(status=lambda s=s: s) for s in states}
    monkeypatch.setattr(stores, "load_stores", lambda config, past: known)
    first, second = json_answer("status")["stores"]
    assert (first["store"], first["state"], first["endpoints"]) == ("a", "up", ["http://127.0.0.1:9000"])
    assert "pids" not in first and (second["version"], second["endpoints"]) == ("", [])


def test_doctor_reports_missing_parts(monkeypatch):
    for level, code in (("warn", 0), ("fail", 2)):
        found = [doctor.Finding("Python", "ok", "3.11"), doctor.Finding("scratch", level, "is none", "set it")]
        monkeypatch.setattr(doctor, "examine", lambda config, found=found: found)
        ended, out, err = command_line.storelab("doctor", "--json")
        answer = valid("doctor", out)
        assert (ended, answer["fit"], answer["findings"][1]["level"]) == (code, code == 0, level)
        assert err.count("\n") == bool(code) and (not code or err.startswith("storelab: doctor: "))


def test_doctor_of_nodes(monkeypatch):
    rows = [dict.fromkeys(inspect.COLUMNS, "-") | {"host": f"n{i}", "problem": "no s5cmd" if i else ""} for i in (0, 1)]
    monkeypatch.setattr(inspect, "nodes", lambda config, stores: (rows, ["seaweedfs"]))
    answer = json_answer("doctor", "--nodes", code=2)
    assert [n["problem"] for n in answer["nodes"]] == ["", "no s5cmd"] and answer["stores_down"] == ["seaweedfs"]
    assert not answer["fit"] and answer["findings"] == []


def test_verify_and_seal(tmp_path, monkeypatch):
    copy = copied("one_each", tmp_path / "copy")
    answer = json_answer("verify", "--campaign-dir", copy)
    assert (answer["measured"], answer["failed"], answer["sealed"]) == (3, 0, None)
    assert answer["files"] == len([p for p in (copy / "raw").rglob("*") if p.is_file()]) - 1  # SHA256SUMS
    first, again = (json_answer("seal", "--campaign-dir", copy) for _ in range(2))
    assert (first["already"], again["already"]) == (False, True) and first["sealed"] == again["sealed"]
    assert json_answer("verify", "--campaign-dir", copy)["sealed"] == first["sealed"]
    for unknown in ([], ["0" * 40]):
        monkeypatch.setattr(environment, "unknown_commits", lambda commits, unknown=unknown: unknown)
        assert json_answer("verify", "--campaign-dir", copy)["unknown_commits"] == unknown
        code, out, _ = command_line.storelab("verify", "--campaign-dir", str(copy))
        note = [f"note: not in this repository: {'0' * 40}, the recorded commits of 3 points"] if unknown else []
        assert code == 0 and out.splitlines()[1:] == note

    def with_changes(folder, load=analysis.load):
        campaign = load(folder)
        for run in campaign.runs.values():
            run["environment"]["git_commit"] += "-dirty"
        return campaign

    monkeypatch.setattr(analysis, "load", with_changes)
    assert command_line.storelab("verify", "--campaign-dir", str(copy))[1].splitlines()[1:] == note


def test_verdict_has_the_rows_of_the_table(campaign):
    answer, table = json_answer("verdict", "--campaign-dir", campaign), build.read(campaign, "verdicts")
    assert [v["verdict"] for v in answer["verdicts"]] == list(table["verdict"])
    assert [v["best"] for v in answer["verdicts"]] == pytest.approx(list(table["best"]))
    assert list(answer["verdicts"][0]) == list(table.columns)


def test_compare(campaign, tmp_path):
    answer = json_answer("compare", campaign, campaign, "--csv", tmp_path / "t.csv", "--fail-on", "slower")
    table = pd.read_csv(tmp_path / "t.csv")
    assert [r["metric"] for r in answer["rows"]] == list(table["metric"])
    assert [r["ratio"] for r in answer["rows"]] == pytest.approx([1.0] * len(table))
    whole = next(r for r in answer["rows"] if r["workload"] == "all")
    assert whole["axes"] == {} and whole["points"] == 6 and whole["median_a"] is None
    point = next(r for r in answer["rows"] if r["workload"] == "put")
    assert point["axes"]["clients"] == 1 and "entry_fraction_percent" not in point["axes"]
    assert (answer["slower"], answer["fail_on"], answer["unmatched_a"]) == (0, "slower", 0)
    assert json_answer("compare", campaign, campaign)["slower"] is None


def test_slower_side_sets_exit_code_and_json(campaign, tmp_path):
    slow = copied("two_stores", tmp_path / "slow")
    path = slow / "tables" / "points.csv"
    points = pd.read_csv(path)
    rates = [c for c in points if c.startswith("overlap_") and c.endswith("_per_s")]
    points[rates] /= 2
    points.to_csv(path, index=False)
    derived.write_sums(slow, ["points"])
    words = ("compare", str(campaign), str(slow), "--fail-on", "slower-overall", "--json")
    ended, out, err = command_line.storelab(*words)
    answer = valid("compare", out)
    assert ended == Exit.FAILED and answer["slower"] == 1 and err.count("\n") == 1 and "slower" in err


def test_size_agrees_with_its_text(campaign):
    table = build.read(campaign, "throughput").set_index("workload").loc["put"].iloc[0]
    of = ("--engine", table["engine"], "--operation", "put")
    words = ("size", "--link", "20 Gbit/s", "--client-link", "1 Gbit/s")
    words += ("--campaign-dir", str(campaign), *of)
    answer, (_, out, _) = json_answer(*words), command_line.storelab(*words)
    asked_for = [answer[name] for name in ("link_bytes_per_s", "client_link_bytes_per_s", "points")]
    assert asked_for == [2_500_000_000, 125_000_000, 100]
    assert f"{answer['clients']} clients fill 20 Gbit/s; with {answer['clients_with_room']} clients" in out
    assert answer["one_client"]["source"] in out
    lines = re.findall(r"^ *(\d+) clients, 100 points: .* in (\d+) files in total$", out, flags=re.MULTILINE)
    assert [(str(r["clients"]), str(r["files"])) for r in answer["records"]] == lines and len(lines) == 4


def test_errors_print_nothing_to_stdout():
    commands = ["verify", "verdict", "seal", "history", "history add"]
    arguments = [(*command.split(), "--campaign-dir", "nowhere") for command in commands]
    arguments += [("--set", "campaign=nowhere", command) for command in ("check", "plan", "status", "doctor")]
    arguments += [("compare", "nowhere", "nowhere"), ("size", "--link", "x", "--client-link", "1 Gbit/s")]
    for words in (*arguments, ("plan", "--write")):
        ended, out, err = command_line.storelab(*words, "--json")
        assert (ended, out) == (Exit.MISTAKE, ""), words
        assert err.startswith("storelab: ") and err.count("\n") == 1, words


# Exit codes


def test_exit_codes_are_those_of_the_page():
    page = (ROOT / "docs/machine.md").read_text()
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| (.+) \|$", page, flags=re.MULTILINE)
    assert [(int(code), name, meaning) for code, name, meaning in rows] == [(e.value, e.name, e.meaning) for e in Exit]
    stable = {"DONE": 0, "FAILED": 1, "MISTAKE": 2, "HANGUP": 129, "INTERRUPTED": 130, "TERMINATED": 143}
    assert {e.name: e.value for e in Exit} == stable


def exits(tree: ast.AST) -> list[str]:
    """Return the arguments of all `sys.exit(…)`."""
    calls = (n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == "sys.exit")
    return [ast.unparse(a) for call in calls for a in call.args]


def test_commands_use_only_named_exit_codes():
    known = re.compile(r"Exit\b|error\.exit_code$")
    found = {p: exits(ast.parse(p.read_text())) for p in (ROOT / "src/storelab/cli").rglob("*.py")}
    assert [words for each in found.values() for words in each if not known.search(words)] == []
    assert len([words for each in found.values() for words in each]) >= 7
    assert exits(ast.parse("import sys\nsys.exit(3)")) == ["3"] and not known.search("3")


def hung_up(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize(
    ("happens", "code"),
    [
        (lambda: None, Exit.DONE),
        (lambda: 0, Exit.DONE),
        (MeasurementFailed("m"), Exit.FAILED),
        (UserError("p", "q"), Exit.MISTAKE),
        (click.UsageError("u"), Exit.MISTAKE),
        (OSError(28, "No space left on device"), Exit.MISTAKE),
        (KeyboardInterrupt(), Exit.INTERRUPTED),
        (click.Abort(), Exit.INTERRUPTED),
        (BrokenPipeError(), Exit.INTERRUPTED),
        (lambda: hung_up(signal.SIGTERM), Exit.TERMINATED),
        (lambda: hung_up(signal.SIGHUP), Exit.HANGUP),
    ],
)
def test_exit_code_of_each_ending(monkeypatch, capsys, happens, code):
    def run(**_):
        if isinstance(happens, BaseException):
            raise happens
        return happens()

    monkeypatch.setattr(cli, "main", run)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    try:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        for number, was in before.items():
            signal.signal(number, was)
    assert ended.value.code == code
    assert capsys.readouterr().err.count("\n") == (code in (Exit.FAILED, Exit.MISTAKE))


# Completion


def test_completion_scripts_are_valid(tmp_path):
    for shell in SHELLS:
        code, out, err = command_line.storelab("completion", shell)
        assert (code, err) == (0, "") and "_STORELAB_COMPLETE" in out and f"{shell}_complete" in out
        if program := shutil.which(shell):
            script = tmp_path / shell
            script.write_text(out)
            done = subprocess.run([program, "-n", str(script)], capture_output=True, text=True, timeout=60)
            assert (done.returncode, done.stderr) == (0, ""), shell
    code, out, err = command_line.storelab("completion", "tcsh")
    assert (code, out) == (2, "") and "'tcsh'" in err and "'zsh'" in err and err.count("\n") == 1


def test_bash_loads_the_completion_script():
    """Bash reports which function completes storelab, after `eval "$(storelab completion bash)"`."""
    _, script, _ = command_line.storelab("completion", "bash")
    asks = f"{script}\ncomplete -p storelab"
    done = subprocess.run(["bash", "-c", asks], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and re.search(r"-F _storelab_completion storelab", done.stdout), done.stderr
