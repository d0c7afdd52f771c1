"""The page of a campaign during measurement: what the page reads of it, its server, its metrics.

Nothing is measured here: states and records are written by hand.
"""

import asyncio
import json
import os
import platform
import re
import time

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from aiohttp import test_utils
from paths import ROOT
from prometheus_client.parser import text_string_to_metric_families

from storelab.analysis.report import page
from storelab.analysis.report.live import address, serve, watch
from storelab.core import integrity, records
from storelab.core.campaign import live

S = 10**9
T0 = 1_760_000_000 * S
HOSTILE = "</script><img src=x onerror=planted()>"


def planned(folder, keys, name="c"):
    points = []
    for order, key in enumerate(keys):
        store, workload, _ = key.split("/")
        own = {"order": order, "key": key, "store": store, "workload": workload, "rep": 1, "sweep": "s"}
        points.append(own | {"axes": {"clients": 1, "engine": "s5cmd"}, "fixed": {"duration_ns": 20 * S}})
    content = {"schema": 1, "campaign": {"name": name, "title": f"{name} {HOSTILE}"}, "points": points}
    records.write_summed(folder / "raw" / "plan.json", content)


def ended(folder, key, kind="ok", reason="it broke"):
    """Write the head of a record as far as the page reads it: 2 clients, 20 s, 3000 operations, 12 MB; or failed."""
    if kind == "failed":
        records.write_json(folder / "raw" / key / "failed.json", {"reason": reason})
        return
    clients = [{"operations": n, "errors": 4, "bytes": 4000 * n} for n in (1000, 2000)]
    run = {"clients": clients, "start_ns": T0, "deadline_ns": T0 + 20 * S, "valid": kind == "ok"}
    run["budget"] = {"reason": None if kind == "ok" else reason}
    records.write_json(folder / "raw" / key / "run.json", run)


def says(folder, key, stage="measuring", who=None, run=None, **more):
    point = {"key": key, "store": "a", "workload": "put", "said": "clients=1", "clients": 2, "duration_s": 20.0}
    rates = {"operations_per_s": [None, 150.0], "bytes_per_s": [None, 6e5], "errors_per_s": [None, 1.0]}
    cores = {"client_cores": [None, 0.5], "server_cores": [None, None], "host_cores": [None, 1.5]}
    found = (who or live.process(os.getpid())) | {
        **{"run": run, "campaign": "c", "number": 1, "points": 3, "left_s": 60.0, "point": point, "stage": stage},
        **{"begun_ns": time.time_ns(), "start_ns": None, "written_ns": time.time_ns(), "cores": 2, "clients_told": 2},
        **{"operations": 300, "errors": 2, "bytes": 1_200_000, "client_rss_bytes": 10**8, "server_rss_bytes": None},
        **{"outcome": None, "reason": None, "seconds": {"at_s": [1.0, 2.0]} | rates | cores},
    }
    live.write(folder, found | more)


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
    content = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    return content["mood"], content


def test_mood_and_counts_follow_the_campaign(watched):
    folder, dead = watched.folder, {"host": platform.node(), "pid": 2**22 - 1, "born": 5}
    mood, state = after(watched)
    assert mood == "waiting" and state["counts"] == {"done": 0, "invalid": 0, "failed": 0, "to come": 3}
    says(folder, KEYS[0])
    mood, state = after(watched)
    assert mood == "running" and state["state"]["operations"] == 300 and 0 < state["left_s"] <= 60
    assert state["age_s"] >= 0
    says(folder, KEYS[0], who=dead)
    mood, state = after(watched)
    assert mood == "killed" and str(2**22 - 1) in state["said"] and "Run the same command again" in state["said"]
    assert state["left_s"] is None
    ended(folder, KEYS[0])
    says(folder, KEYS[0], stage="ended", who=dead, run=live.process(os.getpid()) | {"begun_ns": 0})
    mood, state = after(watched)
    assert mood == "between" and state["counts"]["done"] == 1
    facts = {"operations_per_s": 150.0, "mb_per_s": 0.6, "started": "2025-10-09T08:53:20Z"}
    assert state["recent"] == [{"key": KEYS[0], "state": "ok", "reason": None} | facts]
    says(folder, KEYS[0], stage="ended", who=dead, run=dead | {"begun_ns": 0})
    mood, state = after(watched)
    assert mood == "stopped" and "2 of 3 points remain" in state["said"]
    ended(folder, KEYS[1], "failed", HOSTILE)
    ended(folder, KEYS[2], "invalid")
    says(folder, KEYS[2], stage="ended", who=dead)
    mood, state = after(watched)
    assert mood == "failed" and "1 of 3 points failed" in state["said"]
    assert state["counts"] == {"done": 2, "invalid": 1, "failed": 1, "to come": 0}
    wrong = [(KEYS[1], "failed", HOSTILE), (KEYS[2], "invalid", "it broke")]
    assert [(w["key"], w["state"], w["reason"]) for w in state["wrong"]] == wrong
    live.path(folder).unlink()
    assert after(watched)[0] == "failed", "also without a measuring process"
    ended(folder, KEYS[1])
    assert after(watched)[0] == "complete"


def test_remote_host_counts_until_it_is_silent(watched):
    far = {"host": "elsewhere", "pid": 1, "born": 5}
    says(watched.folder, KEYS[0], who=far)
    assert after(watched)[0] == "running"
    says(watched.folder, KEYS[0], who=far, written_ns=time.time_ns() - 11 * S)
    mood, state = after(watched)
    assert mood == "silent" and "elsewhere" in state["said"]
    says(watched.folder, KEYS[0], who=far, stage="data", written_ns=time.time_ns() - 11 * S)
    assert after(watched)[0] == "running", "staging prints nothing"


def test_earlier_failures_are_to_come(watched):
    ended(watched.folder, KEYS[0], "failed")
    assert after(watched)[1]["counts"]["failed"] == 1
    says(watched.folder, KEYS[1], run=live.process(os.getpid()) | {"begun_ns": time.time_ns() + S})
    _, state = after(watched)
    assert state["counts"]["failed"] == 0 and state["counts"]["to come"] == 3 and not state["wrong"]


def test_old_records_are_read_later(watched):
    ended(watched.folder, KEYS[0])
    ended(watched.folder, KEYS[1])
    (watched.raw / KEYS[1] / "run.json").write_text("{}")
    _, state = after(watched)
    assert state["counts"]["done"] == 2 and state["recent"] == [] and sorted(watched.unread) == KEYS[:2]

    async def read():
        task = asyncio.create_task(watched._read_old())
        while watched.unread:
            await asyncio.sleep(0.01)
        task.cancel()

    asyncio.run(read())
    _, state = after(watched)
    assert [row["key"] for row in state["recent"]] == [KEYS[0]] and "verify" in watched.rows[KEYS[1]]["reason"]


def test_damaged_plan_is_reported(watched):
    (watched.raw / "plan.json").write_text("{")
    _, state = after(watched)
    assert "plan.json" in state["said"] and "is not JSON" in state["said"] and state["planned"] == 3


def test_plan_without_a_campaign_is_reported(watched):
    plan = records.read_json(watched.folder / "raw" / "plan.json")
    records.write_summed(watched.folder / "raw" / "plan.json", {"points": plan["points"]})
    assert "does not name the campaign" in after(watched)[1]["said"]


@pytest.mark.parametrize(
    "change",
    [
        *({name: None} for name in ("pid", "stage", "point", "seconds", "written_ns", "host")),
        {"point": {"key": 1}},
        {"run": {}},
        {"seconds": {"at_s": []}},
        {"stage": "asleep"},
        {"left_s": float("nan")},
    ],
)
def test_damaged_state_is_ignored(watched, change):
    says(watched.folder, KEYS[0])
    path = live.path(watched.folder)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert after(watched)[0] == "waiting"


def test_impossible_record_is_reported(watched):
    ended(watched.folder, KEYS[0])
    head = watched.folder / "raw" / KEYS[0] / "run.json"
    records.write_json(head, records.read_json(head) | {"start_ns": -(10**30)})
    after(watched)
    watched._read_record(KEYS[0])
    assert "cannot be read" in watched.rows[KEYS[0]]["reason"]


def test_facts_agree_with_the_operations():
    """Brute force over the operations of each record of the reference campaign that has them one by one."""
    compared, raw = 0, ROOT / "results/reference/raw"
    ops = pq.read_table(raw / "ops.parquet", columns=["point", "count", "bytes", "error"])
    for key in [key for key in integrity.heads(raw) if "/get/" in key][:4]:
        run = integrity.read(raw, key)
        found = watch.facts(run)
        rows = ops.filter(pc.field("point") == key).to_pylist()
        good = sum(r["count"] or 1 for r in rows if r["error"] is None)
        assert found["operations"] == good and found["bytes"] == sum(r["bytes"] for r in rows)
        assert found["state"] == ("ok" if run.get("valid", True) else "invalid")
        assert found["operations_per_s"] == pytest.approx(good / found["seconds"], abs=1e-3)
        compared += good
    assert compared > 100


def test_table_has_a_row_for_each_point(watched):
    ended(watched.folder, KEYS[1])
    says(watched.folder, KEYS[1], stage="ended")
    after(watched)
    table = watched.table()
    assert table["rows"] == 3 and all(len(column) == 3 for column in table["cells"])
    at = dict(zip(table["columns"], table["cells"], strict=True))
    assert at["key"] == KEYS and at["state"] == ["to come", "ok", "to come"] and at["seconds"] == ["20", "20", "20"]
    assert at["operations"] == ["", "3000", ""] and at["errors"] == ["", "8", ""]
    assert table["columns"].index("engine") < table["columns"].index("rep") < table["columns"].index("state")


# The server


def responses(folder, look, token=""):
    """Return the result of `look(client, path)` at a server of this folder."""

    async def run():
        server = test_utils.TestServer(serve.app(folder, token))
        async with test_utils.TestClient(server) as client:
            return await look(client, f"/{token}" if token else "")

    return asyncio.run(run())


def test_page_holds_plan_and_state(tmp_path):
    planned(tmp_path, KEYS)
    says(tmp_path, KEYS[0])

    async def look(client, at):
        return {name: await (await client.get(f"{at}/{name}")).text() for name in ("", "live.json", "points.json")}

    texts = responses(tmp_path, look)
    blocks = page.read(texts[""])
    assert blocks["head"]["title"].endswith(HOSTILE) and HOSTILE not in texts[""]
    assert blocks["tables"]["points"] == json.loads(texts["points.json"])["tables"]["points"]
    assert blocks["live"]["state"]["operations"] == json.loads(texts["live.json"])["state"]["operations"] == 300
    for part in ("report.css", *page.SCRIPTS):
        assert (page.HERE / part).read_text() in texts[""], part
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', texts[""])[1]
    assert policy.endswith("connect-src 'self'") and "default-src 'none'" in policy


def test_metrics_hold_known_values(tmp_path):
    planned(tmp_path, KEYS)
    ended(tmp_path, KEYS[1], "failed")
    says(tmp_path, KEYS[0])

    async def look(client, at):
        answer = await client.get(f"{at}/metrics")
        return answer.headers["Content-Type"], await answer.text()

    kind, text = responses(tmp_path, look)
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
    assert ("storelab_cpu_cores", campaign, ("side", "store"), *point) not in found, "an unknown value is not 0"
    assert found["storelab_memory_bytes", campaign, ("side", "clients"), *point] == 10**8
    assert {f.name for f in families if f.documentation} == set(serve.NAMES)


def test_metrics_count_failed_points(watched):
    for key in KEYS:
        ended(watched.folder, key, "failed" if key == KEYS[0] else "ok")
    text = serve.metrics_text(after(watched)[1]).decode()
    assert 'mood="failed"} 1.0' in text and 'mood="complete"} 0.0' in text


def test_metrics_and_keys_are_documented():
    text = (ROOT / "docs" / "live.md").read_text()
    for name in serve.NAMES:
        assert re.search(rf"`{name}(_total)?[`{{]", text), name
    assert set(serve.MOODS) | set(live.STAGES) | set(live.SECONDS) <= set(re.findall(r"`([a-z_]+)`", text))


def test_requests_without_the_token_get_404(tmp_path):
    planned(tmp_path, KEYS)
    token = address.token_for("0.0.0.0")
    assert len(token) >= 20 and token != address.token_for("0.0.0.0") and not address.token_for("127.0.0.1")

    async def look(client, at):
        wrong = ("", "metrics", f"{token[:-1]}/", f"{token}x/live.json", "events", "nonsense/")
        out = [(await client.get(f"/{name}")).status for name in wrong]
        return out, (await client.get(f"{at}/")).status, (await client.get(f"{at}/metrics")).status

    assert responses(tmp_path, look, token) == ([404] * 6, 200, 200)


def test_foreign_host_names_are_refused(tmp_path):
    names = {"127.0.0.1:80": 200, "localhost": 200, "[::1]:9": 200, "evil.example": 403}

    async def look(client, at):
        return {name: (await client.get(f"{at}/live.json", headers={"Host": name})).status for name in names}

    assert responses(tmp_path, look) == names


@pytest.mark.parametrize("host", ["[::1]:x", "localhost:99999", "\udcff", "http://x"])
def test_malformed_host_is_refused(tmp_path, host, capfd):
    async def ask():
        runner = serve.web.AppRunner(serve.app(tmp_path), access_log=None, logger=serve.logger())
        await runner.setup()
        await serve.web.TCPSite(runner, "127.0.0.1", 0).start()
        reader, writer = await asyncio.open_connection("127.0.0.1", runner.addresses[0][1])
        writer.write(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode("utf-8", "surrogateescape"))
        answers = [await reader.readline()]
        writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", runner.addresses[0][1])
        writer.write(b"\x16\x03\x01\x02\x00 a TLS client\r\n\r\n")
        answers.append(await reader.readline())
        writer.close()
        await runner.cleanup()
        return answers

    planned(tmp_path, KEYS)
    refused, bad = asyncio.run(ask())
    assert b" 403 " in refused and b" 400 " in bad
    error = capfd.readouterr().err
    assert "Traceback" not in error and len(error.splitlines()) <= 1


def test_browsers_get_news_and_are_forgotten(tmp_path, monkeypatch):
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
        return first["mood"], news["age_s"] >= 0, here, len(browsers), (await client.get(f"{at}/live.json")).status

    assert responses(tmp_path, look) == ("waiting", True, 1, 0, 200)


def test_number_of_browsers_is_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(serve, "MAX_BROWSERS", 1)

    async def look(client, at):
        one = await client.get(f"{at}/events")
        await one.content.readline()
        two = await client.get(f"{at}/events")
        return one.status, two.status

    assert responses(tmp_path, look) == (200, 503)


def test_finished_report_is_served(tmp_path):
    planned(tmp_path, KEYS)

    async def look(client, at):
        before = (await client.get(f"{at}/report.html")).status
        (tmp_path / "raw" / "SHA256SUMS").write_text("")
        (tmp_path / "report.html").write_text("<p>made</p>")
        answer = await client.get(f"{at}/report.html")
        state = await (await client.get(f"{at}/live.json")).json()
        return before, answer.status, await answer.text(), state["report"]

    assert responses(tmp_path, look) == (404, 200, "<p>made</p>", True)
