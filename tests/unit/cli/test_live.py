"""What a campaign says while it is measured: clients, state, what is found of it, the pages of the server, the terminal.

Nothing here measures: states and records are written by hand, and time is.
"""

import asyncio
import json
import os
import platform
import pty
import re
import subprocess
import sys
import time
from itertools import pairwise
from types import SimpleNamespace

import golden
import pyarrow.parquet as pq
import pytest
from aiohttp import test_utils
from laboratory import in_process
from paths import ROOT
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

from storelab.analysis.report import page
from storelab.analysis.report.live import metrics, serve, watch
from storelab.core import plan, records
from storelab.core.campaign import live
from storelab.core.config import Config
from storelab.core.errors import MeasurementFailed
from storelab.engines.common import told
from storelab.engines.common.guard import Guard, LimitExceeded
from storelab.engines.obstore.loop import Closed, Loop, Outcome, Task
from storelab.host.monitor import Used
from storelab.measure import given_up, jobs
from storelab.measure.progress import display, lines, state, terminal
from storelab.workloads import WORKLOADS
from storelab.workloads.staging import upload

S, MS = 10**9, 10**6
T0 = 1_760_000_000 * S
HOSTILE = "</script><img src=x onerror=planted()>"


# --- what clients tell ---


def test_a_client_tells_its_totals_and_seldom(tmp_path):
    teller = told.Teller(tmp_path / "told.3")
    for i in range(1000):  # 10 s
        teller.note(T0 + i * 10 * MS, 10 * i, i, 1000 * i)
        assert told.read(tmp_path / "told.3") == (200 * (i // 20), 20 * (i // 20), 20_000 * (i // 20))
    assert (tmp_path / "told.3").stat().st_size == 40


def test_half_a_write_is_not_believed(tmp_path):
    path = tmp_path / "told.0"
    told.Teller(path).note(T0, 5, 1, 700)
    whole = path.read_bytes()
    told.Teller(tmp_path / "told.1").note(T0 + S, 300, 2, 90_000)
    other = (tmp_path / "told.1").read_bytes()
    for cut in range(1, 40):
        path.write_bytes(other[:cut] + whole[cut:])
        assert told.read(path) in (None, (5, 1, 700), (300, 2, 90_000))
    path.write_bytes(whole[:-1])
    assert told.read(path) is None and told.read(tmp_path / "none") is None
    before = {"told.0": told.Done(4, 1, 600)}
    assert told.of_gang(tmp_path, before) == {"told.0": (4, 1, 600), "told.1": (300, 2, 90_000)}
    assert told.total([told.Done(4, 1, 600), told.Done(300, 2, 90_000)]) == (304, 3, 90_600)
    assert told.total([]) == (0, 0, 0) and told.of_gang(tmp_path / "gone", {}) == {}


def test_who_cannot_tell_is_silent(tmp_path):
    told.Teller(None).note(T0, 1, 1, 1)
    told.Teller(tmp_path / "no folder" / "told.0").note(T0, 1, 1, 1)
    told.Teller(tmp_path / "told.0").note(T0, 2**70, 1, 1)
    assert told.read(tmp_path / "told.0") is None


def test_the_guard_tells_before_it_refuses(tmp_path):
    guard = Guard({"error_fraction": 0.1}, 1, told=told.Teller(tmp_path / "told.0"))
    with pytest.raises(LimitExceeded):
        guard.observe(T0, 900, 100, 40, 60)
    assert told.read(tmp_path / "told.0") == (40, 60, 900)


def test_threads_of_obstore_tell_beside_their_operations(tmp_path, monkeypatch):
    """Two workers with 30 tasks each; each fifth fails: 48 good ones of 100 bytes and 3 objects, 12 failed."""
    monkeypatch.setattr("storelab.engines.obstore.loop.EVERY_NS", 5 * MS)
    monkeypatch.setattr(told, "EVERY_NS", 0)

    def operation(task, keep):
        time.sleep(0.002)
        if task.key % 5 == 0:
            raise OSError("planted")
        return Outcome(3, 100, 0)

    tasks = [Task(n, 0, "x", count=3) for n in range(30)]
    loop = Loop(operation, lambda worker: iter(tasks), [0, 1], 1, 1, Guard({}, 1), told=tmp_path / "told.0.0")
    seen, tell = [], told.Teller.note
    monkeypatch.setattr(told.Teller, "note", lambda *a: (seen.append(a[2:]), tell(*a)))
    now = time.time_ns()
    loop.run(now, now + 20 * S, Closed(now + 20 * S))
    assert len(seen) > 3 and all(a <= b for one, two in pairwise(seen) for a, b in zip(one, two, strict=True))
    for operations, errors, moved in seen:
        assert operations % 3 == errors % 3 == 0 and moved == 100 * operations // 3
    assert seen[-1][0] <= 3 * 48 and seen[-1][1] <= 3 * 12


# --- the state ---


@pytest.fixture
def config(tmp_path):
    sweeps = {"up": {"workload": "put", "duration": "20 s", "axes": {"clients": [1, 2]}}}
    more = {"campaign": "c", "name": "c", "results": str(tmp_path), "repetitions": 2, "calibrate": False}
    return Config.model_validate(
        {**more, "stores": {"a": {"kind": "seaweedfs"}}, "use_stores": ["a"], "sweeps": sweeps}
    )


@pytest.fixture
def points(config):
    return plan.make(config, WORKLOADS)


def following(config, points, number=0):
    chosen = points[number]
    return state.following(config, chosen, lines.place(config, points, chosen))


def test_a_point_tells_where_it_is(config, points, monkeypatch):
    monkeypatch.setenv(given_up.RUN, f"{os.getpid()}:{T0}")
    with following(config, points) as now:
        first = live.read(config.campaign_dir)
        assert first["stage"] == "store" and first["point"]["key"] == points[0].key and first["outcome"] is None
        assert (first["number"], first["points"], first["left_s"]) == (1, 4, 4 * 22.0)
        assert first["pid"] == os.getpid() and live.lives(first) and live.lives(first["run"])
        assert first["run"]["begun_ns"] == T0 and first["start_ns"] is None
        for stage in ("data", "clients"):
            now.stage(stage)
            assert live.read(config.campaign_dir)["stage"] == stage
    last = live.read(config.campaign_dir)
    assert (last["stage"], last["outcome"], last["reason"]) == ("ended", "measured", None)


def test_how_a_point_ended_is_told(config, points):
    with pytest.raises(MeasurementFailed), following(config, points):
        raise MeasurementFailed("client 0: it broke")
    assert live.read(config.campaign_dir)["outcome"] == "failed"
    assert live.read(config.campaign_dir)["reason"] == "client 0: it broke"
    with pytest.raises(SystemExit), following(config, points):
        sys.exit(143)
    assert live.read(config.campaign_dir)["outcome"] == "interrupted"


def test_rates_and_cores_of_each_second(config, points, tmp_path, monkeypatch):
    """Two clients, one in two processes: 100 operations/s, 1 failure/s, 4 kB each; half a core and two."""
    at = [T0 - S]
    monkeypatch.setattr(state.clock, "now_ns", lambda: at[0])
    work = tmp_path / "work"
    work.mkdir()
    with following(config, points, 1) as now:
        now.stage("clients", work)
        now.starts(T0)
        for second in range(1, 71):
            at[0] = T0 + second * S + 50 * MS
            for name, rate in (("0", 50), ("1.0", 25), ("1.1", 25)):
                teller = told.Teller(work / f"told.{name}")
                teller.note(at[0], rate * second, second * (name == "0"), 4000 * rate * second)
            used = Used(10 + 2.5 * second, 0.5 * second, 2.0 * second, 10**8, 10**9)
            now.second(T0 + second * S, used)
            seen = live.read(config.campaign_dir)
            assert seen["written_ns"] == at[0] and len(seen["seconds"]["at_s"]) == min(60, second)
    columns = seen["seconds"]
    assert columns["at_s"] == [pytest.approx(s + 0.05) for s in range(11, 71)] and set(columns) == set(live.SECONDS)
    assert columns["operations_per_s"] == [100.0] * 60 and columns["bytes_per_s"] == [4e5] * 60
    assert columns["errors_per_s"] == [1.0] * 60
    assert set(columns["client_cores"]) == {0.5} and set(columns["server_cores"]) == {2.0}
    assert set(columns["host_cores"]) == {2.5}
    assert seen["clients_told"] == 2 and seen["errors"] == 70 and seen["operations"] == 7000
    assert (seen["client_rss_bytes"], seen["server_rss_bytes"]) == (10**8, 10**9)


def test_what_nobody_tells_is_unknown(config, points):
    with following(config, points) as now:
        now.starts(T0)
        for second in (1, 2):
            now.second(T0 + second * S, Used(2.0 * second))
        seen = live.read(config.campaign_dir)
    assert seen["operations"] is None and seen["seconds"]["operations_per_s"] == [None, None]
    assert seen["seconds"]["client_cores"] == [None, None] and seen["seconds"]["host_cores"] == [None, 2.0]


def test_a_disk_that_is_full_ends_nothing(config, points, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with following(config, points) as now:
        monkeypatch.setattr(live.records, "write_atomic", full)
        now.stage("data")
        now.starts(T0)
        now.second(T0 + S, Used(1.0))
        now.second(T0 + S, None)  # and no mistake of ours ends the monitor
    assert live.read(config.campaign_dir)["stage"] == "store"


def test_off_writes_nothing_and_asks_no_client(config, points, monkeypatch):
    monkeypatch.setattr(jobs, "job_data", lambda *_: {})
    assert jobs.of_point(config, points[0], None, {}, "a")["tells"] is True
    monkeypatch.setenv(live.OFF, "off")
    with following(config, points) as now:
        now.starts(T0)
        now.second(T0 + S, Used(1.0))
    assert live.read(config.campaign_dir) is None
    assert jobs.of_point(config, points[0], None, {}, "a")["tells"] is False


def test_who_lives():
    me = live.process(os.getpid())
    assert live.lives(me) is True and live.lives(None) is False
    assert live.lives(me | {"born": me["born"] + 1}) is False, "another process of the same number"
    assert live.lives(me | {"host": "elsewhere"}) is None
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        other = live.process(child.pid)
        assert live.lives(other) is True
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert live.lives(other) is False, "a dead one that nobody buried"


def test_no_state_is_no_harm(tmp_path):
    assert live.read(tmp_path) is None
    live.write(tmp_path, {"a": 1})
    assert live.read(tmp_path) == {"schema": 1, "a": 1}
    for text in ("", "[]", "{", '{"schema": 2}', "{}"):
        live.path(tmp_path).write_text(text)
        assert live.read(tmp_path) is None


# --- what is found ---


def planned(folder, keys, name="c"):
    points = []
    for order, key in enumerate(keys):
        store, workload, _ = key.split("/")
        own = {"order": order, "key": key, "store": store, "workload": workload, "rep": 1, "sweep": "s"}
        points.append(own | {"axes": {"clients": 1, "engine": "s5cmd"}, "fixed": {"duration_ns": 20 * S}})
    told = {"schema": 1, "campaign": {"name": name, "title": f"{name} {HOSTILE}"}, "points": points}
    records.write_summed(folder / "raw" / "plan.json", told)


def ended(folder, key, kind="ok", reason="it broke"):
    """A record's head as far as the page reads it: 2 clients, 20 s, 3000 operations, 12 MB; or a failure."""
    if kind == "failed":
        records.write_json(folder / "raw" / key / "failed.json", {"reason": reason})
        return
    clients = [{"operations": n, "errors": 4, "bytes": 4000 * n} for n in (1000, 2000)]
    run = {"clients": clients, "start_ns": T0, "deadline_ns": T0 + 20 * S, "valid": kind == "ok"}
    records.write_json(
        folder / "raw" / key / "run.json", run | {"budget": {"reason": None if kind == "ok" else reason}}
    )


def says(folder, key, stage="measuring", who=None, run=None, **more):
    point = {"key": key, "store": "a", "workload": "put", "said": "clients=1", "clients": 2, "duration_s": 20.0}
    told = {
        **(who or live.process(os.getpid())),
        "run": run,
        "campaign": "c",
        "number": 1,
        "points": 3,
        "left_s": 60.0,
        "point": point,
        "stage": stage,
        "begun_ns": time.time_ns(),
        "start_ns": None,
        "written_ns": time.time_ns(),
        "cores": 2,
        "clients_told": 2,
        "operations": 300,
        "errors": 2,
        "bytes": 1_200_000,
        "client_rss_bytes": 10**8,
        "server_rss_bytes": None,
        "outcome": None,
        "reason": None,
        "seconds": {
            "at_s": [1.0, 2.0],
            "operations_per_s": [None, 150.0],
            "bytes_per_s": [None, 6e5],
            "errors_per_s": [None, 1.0],
            "client_cores": [None, 0.5],
            "server_cores": [None, None],
            "host_cores": [None, 1.5],
        },
    }
    live.write(folder, told | more)


KEYS = [f"a/put/clients~0001_rep~{n:03d}" for n in (1, 2, 3)]


@pytest.fixture
def watched(tmp_path):
    planned(tmp_path, KEYS)
    found = watch.Watched(tmp_path)
    found.look()
    return found


def after(found):
    found._looked = found._lived = 0.0  # as if the time between two looks had passed
    found.look()
    told = json.loads(json.dumps(found.told(), allow_nan=False))
    return told["mood"], told


def test_what_goes_on_is_found(watched):
    folder, dead = watched.folder, {"host": platform.node(), "pid": 2**22 - 1, "born": 5}
    mood, told = after(watched)
    assert mood == "waiting" and told["counts"] == {"done": 0, "invalid": 0, "failed": 0, "to come": 3}
    says(folder, KEYS[0])
    mood, told = after(watched)
    assert mood == "running" and told["state"]["operations"] == 300 and 59 < told["left_s"] <= 60
    assert 0 <= told["age_s"] < 5
    says(folder, KEYS[0], who=dead)
    mood, told = after(watched)
    assert mood == "killed" and str(2**22 - 1) in told["said"] and "Run the same command again" in told["said"]
    assert told["left_s"] is None
    ended(folder, KEYS[0])
    says(folder, KEYS[0], stage="ended", who=dead, run=live.process(os.getpid()) | {"begun_ns": 0})
    mood, told = after(watched)
    assert mood == "between" and told["counts"]["done"] == 1
    assert told["recent"] == [
        {
            "key": KEYS[0],
            "state": "ok",
            "reason": None,
            "operations_per_s": 150.0,
            "mb_per_s": 0.6,
            "started": "2025-10-09T08:53:20Z",
        }
    ]
    says(folder, KEYS[0], stage="ended", who=dead, run=dead | {"begun_ns": 0})
    mood, told = after(watched)
    assert mood == "stopped" and "2 of 3 points are to come" in told["said"]
    ended(folder, KEYS[1], "failed", HOSTILE)
    ended(folder, KEYS[2], "invalid")
    says(folder, KEYS[2], stage="ended", who=dead)
    mood, told = after(watched)
    assert mood == "complete" and told["counts"] == {"done": 2, "invalid": 1, "failed": 1, "to come": 0}
    assert [(w["key"], w["state"], w["reason"]) for w in told["wrong"]] == [
        (KEYS[1], "failed", HOSTILE),
        (KEYS[2], "invalid", "it broke"),
    ]


def test_another_host_is_believed_until_it_is_silent(watched):
    far = {"host": "elsewhere", "pid": 1, "born": 5}
    says(watched.folder, KEYS[0], who=far)
    assert after(watched)[0] == "running"
    says(watched.folder, KEYS[0], who=far, written_ns=time.time_ns() - 11 * S)
    mood, told = after(watched)
    assert mood == "silent" and "elsewhere" in told["said"]
    says(watched.folder, KEYS[0], who=far, stage="data", written_ns=time.time_ns() - 11 * S)
    assert after(watched)[0] == "running", "data are staged without a word"


def test_what_failed_before_this_run_is_to_come(watched):
    ended(watched.folder, KEYS[0], "failed")
    assert after(watched)[1]["counts"]["failed"] == 1
    says(watched.folder, KEYS[1], run=live.process(os.getpid()) | {"begun_ns": time.time_ns() + S})
    _, told = after(watched)
    assert told["counts"]["failed"] == 0 and told["counts"]["to come"] == 3 and not told["wrong"]


def test_old_records_are_read_slowly_and_bad_ones_are_told(watched):
    ended(watched.folder, KEYS[0])
    ended(watched.folder, KEYS[1])
    (watched.raw / KEYS[1] / "run.json").write_text("{}")
    _, told = after(watched)
    assert told["counts"]["done"] == 2 and told["recent"] == [] and sorted(watched.unread) == KEYS[:2]

    async def read():
        task = asyncio.create_task(watched._read_old())
        while watched.unread:
            await asyncio.sleep(0.01)
        task.cancel()

    asyncio.run(read())
    _, told = after(watched)
    assert [row["key"] for row in told["recent"]] == [KEYS[0]] and "verify" in watched.rows[KEYS[1]]["reason"]


def test_a_damaged_plan_is_told_and_the_last_one_stays(watched):
    (watched.raw / "plan.json").write_text("{")
    _, told = after(watched)
    assert "plan.json" in told["said"] and "is not JSON" in told["said"] and told["planned"] == 3


def test_facts_are_those_of_the_records():
    """By brute force over the operations of each record of the reference campaign that has them one by one."""
    compared = 0
    for head in sorted(golden.raw_of("reference").glob("*/get/*/run.json"))[:4]:
        run = json.loads(head.read_text())
        found = watch.facts(run)
        rows = [row for f in sorted(head.parent.glob("ops.*.parquet")) for row in pq.read_table(f).to_pylist()]
        good = sum(r["count"] or 1 for r in rows if r["error"] is None)
        assert found["operations"] == good and found["bytes"] == sum(r["bytes"] for r in rows)
        assert found["state"] == ("ok" if run.get("valid", True) else "invalid")
        assert found["operations_per_s"] == pytest.approx(good / found["seconds"], abs=1e-3)
        compared += good
    assert compared > 100


def test_the_table_is_that_of_the_report(watched):
    ended(watched.folder, KEYS[1])
    says(watched.folder, KEYS[1], stage="ended")
    after(watched)
    table = watched.table()
    assert table["rows"] == 3 and all(len(column) == 3 for column in table["cells"])
    at = dict(zip(table["columns"], table["cells"], strict=True))
    assert at["key"] == KEYS and at["state"] == ["to come", "ok", "to come"] and at["seconds"] == ["20", "20", "20"]
    assert at["operations"] == ["", "3000", ""] and at["errors"] == ["", "8", ""]
    assert table["columns"].index("engine") < table["columns"].index("rep") < table["columns"].index("state")


# --- the server ---


def asked(folder, look, token=""):
    """What `look(client, path)` finds at a server of this folder."""

    async def run():
        server = test_utils.TestServer(serve.app(folder, token))
        async with test_utils.TestClient(server) as client:
            return await look(client, f"/{token}" if token else "")

    return asyncio.run(run())


def test_the_page_is_that_of_the_report_and_holds_what_is_known(tmp_path):
    planned(tmp_path, KEYS)
    says(tmp_path, KEYS[0])

    async def look(client, at):
        return {name: await (await client.get(f"{at}/{name}")).text() for name in ("", "live.json", "points.json")}

    texts = asked(tmp_path, look)
    blocks = page.read(texts[""])
    assert blocks["head"]["title"].endswith(HOSTILE) and HOSTILE not in texts[""]
    assert blocks["tables"]["points"] == json.loads(texts["points.json"])["tables"]["points"]
    assert blocks["live"]["state"]["operations"] == json.loads(texts["live.json"])["state"]["operations"] == 300
    for part in ("report.css", *page.SCRIPTS):
        assert (page.HERE / part).read_text() in texts[""], part
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', texts[""])[1]
    assert policy.endswith("connect-src 'self'") and "default-src 'none'" in policy


def test_metrics_are_what_is_known(tmp_path):
    planned(tmp_path, KEYS)
    ended(tmp_path, KEYS[1], "failed")
    says(tmp_path, KEYS[0])

    async def look(client, at):
        answer = await client.get(f"{at}/metrics")
        return answer.headers["Content-Type"], await answer.text()

    kind, text = asked(tmp_path, look)
    assert kind.startswith("text/plain")
    families = list(text_string_to_metric_families(text))
    found = {(s.name, *sorted(s.labels.items())): s.value for f in families for s in f.samples}
    campaign, point = ("campaign", tmp_path.name), (("store", "a"), ("workload", "put"))
    assert found["storelab_points", campaign, ("state", "to come")] == 2
    assert found["storelab_points", campaign, ("state", "failed")] == 1
    assert found["storelab_mood", campaign, ("mood", "running")] == 1
    assert sum(v for k, v in found.items() if k[0] == "storelab_mood") == 1
    assert found["storelab_operations_total", campaign, *point] == 300
    assert found["storelab_operations_per_second", campaign, *point] == 150
    assert found["storelab_cpu_cores", campaign, ("side", "host"), *point] == 1.5
    assert ("storelab_cpu_cores", campaign, ("side", "store"), *point) not in found, "what is unknown is not 0"
    assert found["storelab_memory_bytes", campaign, ("side", "clients"), *point] == 10**8
    assert {f.name for f in families if f.documentation} == set(metrics.NAMES)


def test_metrics_and_keys_stand_in_the_docs():
    text = (ROOT / "docs" / "live.md").read_text()
    for name in metrics.NAMES:
        assert re.search(rf"`{name}(_total)?[`{{]", text), name
    assert set(metrics.MOODS) | set(live.STAGES) | set(live.SECONDS) <= set(re.findall(r"`([a-z_]+)`", text))


def test_without_the_token_nothing_is_answered(tmp_path):
    planned(tmp_path, KEYS)
    token = serve.token_for("0.0.0.0")
    assert len(token) >= 20 and token != serve.token_for("0.0.0.0") and not serve.token_for("127.0.0.1")

    async def look(client, at):
        wrong = ("", "metrics", f"{token[:-1]}/", f"{token}x/live.json", "events", "nonsense/")
        out = [(await client.get(f"/{name}")).status for name in wrong]
        return out, (await client.get(f"{at}/")).status, (await client.get(f"{at}/metrics")).status

    assert asked(tmp_path, look, token) == ([404] * 6, 200, 200)


@pytest.mark.parametrize(
    ("host", "status"), (("127.0.0.1:80", 200), ("localhost", 200), ("[::1]:9", 200), ("evil.example", 403))
)
def test_a_foreign_name_for_this_machine_is_refused(tmp_path, host, status):
    async def look(client, at):
        return (await client.get(f"{at}/live.json", headers={"Host": host})).status

    assert asked(tmp_path, look) == status


def test_what_is_new_comes_at_once_and_who_leaves_is_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr(serve, "AT_LEAST_S", 0.3)
    planned(tmp_path, KEYS)

    async def look(client, at):
        answer = await client.get(f"{at}/events")
        first = json.loads((await answer.content.readline())[6:])
        await answer.content.readline()
        says(tmp_path, KEYS[0])
        while (news := json.loads((await answer.content.readline())[6:]))["mood"] != "running":
            await answer.content.readline()
        browsers = client.app[serve.BROWSERS]
        here = len(browsers)
        answer.close()
        for _ in range(200):
            if not browsers:
                break
            await asyncio.sleep(0.05)
        return first["mood"], news["age_s"] < 5, here, len(browsers), (await client.get(f"{at}/live.json")).status

    assert asked(tmp_path, look) == ("waiting", True, 1, 0, 200)


def test_only_so_many_browsers_listen(tmp_path, monkeypatch):
    monkeypatch.setattr(serve, "MOST_BROWSERS", 1)

    async def look(client, at):
        one = await client.get(f"{at}/events")
        await one.content.readline()
        two = await client.get(f"{at}/events")
        return one.status, two.status

    assert asked(tmp_path, look) == (200, 503)


def test_the_page_of_the_campaign_is_handed_on_when_it_is_made(tmp_path):
    planned(tmp_path, KEYS)

    async def look(client, at):
        before = (await client.get(f"{at}/report.html")).status
        (tmp_path / "raw" / "SHA256SUMS").write_text("")
        (tmp_path / "report.html").write_text("<p>made</p>")
        answer = await client.get(f"{at}/report.html")
        return (
            before,
            answer.status,
            await answer.text(),
            (await (await client.get(f"{at}/live.json")).json())["report"],
        )

    assert asked(tmp_path, look) == (404, 200, "<p>made</p>", True)


@pytest.fixture
def project(tmp_path):
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "campaigns" / "demo.yaml").write_text((ROOT / "campaigns" / "demo.yaml").read_text())
    (tmp_path / "config.yaml").write_text("campaign: demo\nstores: {seaweedfs: {kind: seaweedfs}}\n")
    return tmp_path


def test_a_port_that_is_taken_is_one_line(project, monkeypatch):
    from storelab.cli import live as command

    monkeypatch.setattr(command.os, "nice", lambda by: 0)
    with serve_nothing() as port:
        code, out, err = in_process(project, "live", "demo", "--port", str(port))
    assert code == 2 and not out and len(err.splitlines()) == 1 and f"--port: {port} is taken on 127.0.0.1" in err
    for wrong, said in (("198.51.100.7", "no address of this machine"), ("nonsense.invalid", "no address of this")):
        code, out, err = in_process(project, "live", "demo", "--address", wrong, "--port", "0")
        assert code == 2 and len(err.splitlines()) == 1 and said in err, err


def serve_nothing():
    import contextlib
    import socket

    @contextlib.contextmanager
    def taken():
        with socket.create_server(("127.0.0.1", 0)) as held:
            yield held.getsockname()[1]

    return taken()


def test_which_campaign_is_meant(project, monkeypatch):
    shown = []
    monkeypatch.setattr(serve, "run", lambda folder, *more: shown.append((folder, *more[:2])))
    monkeypatch.setattr("storelab.cli.live.os.nice", lambda by: 0)
    (project / "results" / "old" / "raw").mkdir(parents=True)
    for name in ([], ["demo"], ["old"]):
        assert in_process(project, "live", *name, "--port", "0")[0] == 0
    assert [(folder.as_posix(), *more) for folder, *more in shown] == [
        ("results/demo", "127.0.0.1", 0),
        ("results/demo", "127.0.0.1", 0),
        ("results/old", "127.0.0.1", 0),
    ]
    code, _, err = in_process(project, "live", "dmo")
    assert code == 2 and "did you mean 'demo'?" in err and len(err.splitlines()) == 1


# --- the terminal ---


def drawn(width, **more):
    told = {
        "campaign": "demo",
        "number": 3,
        "points": 18,
        "left_s": 400.0,
        "begun_ns": T0,
        "start_ns": T0,
        "stage": "measuring",
        "cores": 2,
        "errors": 3,
        "point": {
            "store": "seaweedfs",
            "workload": "put",
            "said": "clients=4 engine=s5cmd rep=001",
            "duration_s": 20.0,
        },
        "seconds": {name: [1.25] for name in live.SECONDS} | {"operations_per_s": [1234.5], "bytes_per_s": [5.1e6]},
    }
    with open(os.devnull, "w") as nowhere:
        console = Console(width=width, record=True, force_terminal=True, file=nowhere)
        console.print(display.View(told | more, T0 + 12 * S))
        return console.export_text().splitlines()


@pytest.mark.parametrize("width", (20, 40, 71, 72, 100, 200))
def test_the_display_is_no_wider_than_the_terminal(width):
    for stage in live.STAGES[:-1]:
        assert max(map(len, drawn(width, stage=stage))) <= width
    text = "\n".join(drawn(width))
    if width >= 40:
        assert "12 s of 20 s" in text and "2 of 18 done, 6 min 28 s still" in text
        assert "1,234 operations/s" in text and "5.1 MB/s" in text and "3 failed" in text
        assert "CPU clients 1.25" in text and "store 1.25" in text and "host 1.25 of 2 cores" in text
        assert len(drawn(width)) <= 9


def test_the_display_says_what_is_unknown():
    nobody = {"seconds": {name: [None] for name in live.SECONDS}}
    text = "\n".join(drawn(80, **nobody))
    assert "tell their rates at the end" in text and "CPU" not in text and "12 s of 20 s" in text
    text = "\n".join(drawn(80, **nobody, start_ns=T0 + 11 * S))
    assert "rates" not in text and "1 s of 20 s" in text, "they may still"
    text = "\n".join(drawn(80, seconds={name: [] for name in live.SECONDS}, stage="clients", start_ns=None))
    assert "the clients start" in text and "rates" not in text


@pytest.fixture
def screen(monkeypatch):
    """A pseudo-terminal that Snakemake would name, and what is written to it."""
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv(terminal.NAMED, f"{platform.node()}:{os.ttyname(theirs)}")

    def read():
        try:
            return os.read(ours, 1 << 16).decode()
        except BlockingIOError:
            return ""

    yield SimpleNamespace(read=read, number=theirs)
    os.close(ours)
    os.close(theirs)


def test_the_terminal_of_snakemake_is_found_and_no_log_is(screen, monkeypatch, capsys):
    found = terminal.found()
    assert found is not None and os.ttyname(found.fileno()) == os.ttyname(screen.number)
    found.close()
    for name, value in (("TERM", "dumb"), (terminal.NAMED, ""), (terminal.NAMED, "elsewhere:/dev/tty")):
        with monkeypatch.context() as other:
            other.setenv(name, value)
            assert terminal.found() is None
    with monkeypatch.context() as other:
        other.setenv(terminal.NAMED, f"{platform.node()}:{os.devnull}")
        assert terminal.found() is None, "no terminal"
    assert terminal.name_here(sys.stderr) == "", "of a log"


def test_the_display_gives_way_to_lines_and_leaves_nothing(screen, config, points, capsys, monkeypatch):
    monkeypatch.setattr(display, "EVERY_S", 3600.0)  # drawn by hand below
    monkeypatch.setattr(display, "AFTER_LINE_S", 0.0)
    with following(config, points) as now, terminal.shown(config.campaign_dir):
        (give_way,) = upload.giving_way
        one = give_way.__self__
        one.draw()
        first = screen.read()
        assert "0 of 4 done" in first and "\x1b[?25l" not in first, "the cursor stays"
        upload.report("    a line")
        assert "\x1b[2K" in screen.read() and capsys.readouterr().err == "    a line\n"
        now.stage("data")
        one.draw()
        assert "the data are staged" in screen.read()
    assert "\x1b[2K" in screen.read() and upload.giving_way == []
    one.draw()
    assert screen.read() == "", "nothing after the end"


def test_without_a_terminal_nothing_is_drawn(config, points, monkeypatch, capsys):
    monkeypatch.delenv(terminal.NAMED, raising=False)
    with following(config, points), terminal.shown(config.campaign_dir):
        assert upload.giving_way == []
    assert capsys.readouterr().err == ""
