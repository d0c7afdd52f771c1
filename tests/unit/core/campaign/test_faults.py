"""Faults as they are configured: acts, their times, and mistakes in them."""

import json
from functools import partial

from fault_stores import STORES, acts
from refusals import all_refused, check_refused, refusal

from storelab.core.axes.roles import ACTS, HARMS, LOSSES, UNDOES, USER_ACTS
from storelab.core.campaign.faults import most_lost, resolved
from storelab.stores import config as configuration

S = 10**9


def plain(*given, duration=60 * S, scale=1.0):
    return resolved(acts(*given), duration, scale, "faults.f")


def test_every_act_is_of_one_group():
    assert sorted(ACTS) == sorted([*HARMS, *UNDOES, "upgrade", *USER_ACTS]) and len(set(ACTS)) == 13
    assert {h for harms in UNDOES.values() for h in harms} == set(HARMS), "each harmful act has an act that undoes it"
    assert set(LOSSES) < set(HARMS)


def test_times_are_scaled_and_shares_follow_the_run():
    restart = {"at": "30 %", "act": "restart", "actor": "data.0"}
    kill = {"at": "10 s", "act": "kill", "actor": ["data.0", "data.1"]}
    assert plain(restart, kill) == [
        {"at_ns": 10 * S, "act": "kill", "actors": ["data.0", "data.1"]},
        {"at_ns": 18 * S, "act": "restart", "actors": ["data.0"]},
    ]
    scaled = plain(restart, kill, duration=6 * S, scale=0.1)  # the sweep's duration comes scaled already
    assert [a["at_ns"] for a in scaled] == [1 * S, 1_800_000_000]
    late = partial(plain, restart, kill, duration=10 * S)
    check_refused("faults.f.1.at: ", "kill at 10 s", late)


def test_acts_keep_their_options():
    slow = {"at": "1 s", "act": "slow", "actor": "front.0", "delay": "50 ms", "loss": "1 %", "rate": "1 MB/s"}
    options = {"delay_ns": 50_000_000, "loss_percent": 1.0, "rate_bytes_per_s": 10**6}
    assert plain(slow)[0] == {"at_ns": S, "act": "slow", "actors": ["front.0"]} | options
    assert plain({"at": "1 s", "act": "remove_drive", "actor": "data.0"})[0]["how"] == "gone"
    command = {"act": "command", "command": "ssh a stop", "undo": "ssh a start"}
    found = plain({"at": "1 s"} | command)[0]
    assert found == {"at_ns": S, "actors": []} | command and json.dumps(found)


def test_mistakes_in_an_act_name_the_key():
    one = {"at": "1 s", "act": "kill", "actor": "a"}
    mistakes = [
        (one | {"at": "10"}, "'10'"),
        (one | {"at": "100 %"}, "less than 100 %"),
        ({"at": "1 s", "act": "kill"}, "'actor' is missing"),
        (one | {"actor": []}, "'actor' is missing"),
        (one | {"actor": ["a", "a"]}, "'a' is listed twice"),
        (one | {"delay": "1 s"}, "'kill' does not use 'delay'"),
        (one | {"act": "slow"}, "`delay`, `loss` or `rate`"),
        (one | {"act": "slow", "loss": "0 %"}, "'0 %'"),
        ({"at": "1 s", "act": "command"}, "'command' is missing"),
        (one | {"act": "upgrade"}, "'to' is missing"),
        (one | {"to": "4.48"}, "'kill' does not use 'to'"),
        (one | {"command": "x"}, "'kill' does not use 'command'"),
        (one | {"act": "explode"}, "'kill', 'hang'"),
        ({"act": "kill", "actor": "a"}, "Field required"),
    ]
    all_refused(("", text, acts, given) for given, text in mistakes)


def campaign(folder, faults):
    """Load a configuration with these faults from files."""
    body = {"name": "c", "stores_to_measure": ["sw"], "sweeps": {"s": {"workload": "get"}}, "faults": faults}
    (folder / "campaigns").mkdir(exist_ok=True)
    (folder / "campaigns" / "c.yaml").write_text(json.dumps(body))
    (folder / "config.yaml").write_text(json.dumps({"campaign": "c", "stores": STORES}))
    return configuration.load(folder / "config.yaml")


def test_mistakes_have_their_place_in_the_file(tmp_path):
    assert campaign(tmp_path, {}).faults == {}
    wrong = []
    for faults, text in (
        ({"none": [{"at": "1 s", "act": "kill", "actor": "a"}]}, "'none'"),
        ({"f": []}, "faults.f: "),
        ({"f": [{"at": "1 s", "act": "kill", "actr": "a"}]}, "faults.f.0.actr: unknown key 'actr'"),
        ({"f": [{"at": "1 s", "act": "kill"}]}, "faults.f.0: 'actor'"),
        ({"f": [{"at": 10, "act": "kill", "actor": "a"}]}, "500 ms"),
    ):
        message = refusal(campaign, tmp_path, faults)
        if text not in message or "c.yaml" not in message:
            wrong.append((faults, message))
    assert not wrong, wrong


def test_most_actors_away_at_once():
    for given, away in (
        ([("kill", ["a"]), ("restart", ["a"]), ("kill", ["b"])], {"a"}),
        ([("kill", ["a"]), ("hang", ["b"]), ("restart", ["a"])], {"a", "b"}),
        ([("kill", ["a", "b"]), ("restart", ["a", "b"]), ("cut", ["c"])], {"a", "b"}),
        ([("hang", ["a"]), ("kill", ["a"]), ("resume", ["a"]), ("hang", ["b"])], {"a", "b"}),
        ([("slow", ["a"]), ("fill", ["b"])], set()),
        ([("remove_drive", ["a"]), ("return_drive", ["a"]), ("remove_drive", ["b"])], {"a"}),
        ([("upgrade", ["volume-1"])], set()),
    ):
        assert most_lost([{"act": act, "actors": who} for act, who in given]) == away, given
