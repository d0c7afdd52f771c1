"""Generate wrong input in files and on the command line, as users could write it by mistake.

`inputs` draws them from the schema. `run_mistake` runs one in this process and returns the outcome. Each input breaks a
documented rule, and its generator knows which one. storelab must report it on one line, with exit code 2.
"""

import contextlib
import io
import json
import os
import random
import shutil
import signal
import string
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

MOST_S = 5.0  # CPU seconds, because wall time depends on the load of the machine
MAIN = """campaign: small
stores:
  one: {kind: seaweedfs}
  two: {kind: versitygw}
  far: {kind: s3, endpoint: "https://s3.example.org"}
  door: {kind: http, endpoint: "https://door.example.org/folder"}
"""
CAMPAIGN = """name: small
stores_to_measure: [one]
repetitions: 2
calibrate: false
sweeps:
  up: {workload: put, duration: 2 s, warm_up: 100 ms, axes: {object_size: 4 kB, clients: [1, 2]}}
  down: {workload: get, duration: 2 s, warm_up: 100 ms, objects: 8, axes: {object_size: 4 kB, buckets: 2}}
"""


@dataclass(frozen=True)
class Mistake:
    """One mistaken input.

    kind: what is wrong; files: path -> bytes, written over those of `laid_out`; rebuild: Snakemake's --config.
    """

    kind: str
    arguments: tuple[str, ...] = ("check",)
    files: dict[str, bytes] = field(default_factory=dict)
    rebuild: dict[str, Any] | None = None


@dataclass(frozen=True)
class Outcome:
    """The outcome of a mistake: `reported`, `silent` (exit code 0), `traceback`, `unclear` (not one line), `slow`."""

    outcome: str
    detail: str


def laid_out(folder: Path) -> None:
    """Write a correct configuration, which `Mistake.files` then changes."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "campaigns").mkdir(parents=True)
    (folder / "config.yaml").write_text(MAIN)
    (folder / "campaigns" / "small.yaml").write_text(CAMPAIGN)
    (folder / "file").write_text("no folder\n")


def run(folder: Path, mistake: Mistake) -> tuple[object, str, str]:
    """Return (exit code or traceback, stdout, stderr) of the command, run in this process."""
    from storelab.cli import main, workflow

    out, err, here = io.StringIO(), io.StringIO(), Path.cwd()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    code: object = None
    os.chdir(folder)
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            mock.patch.object(sys, "argv", ["storelab", *mistake.arguments]),
        ):
            main() if mistake.rebuild is None else workflow.start(mistake.rebuild)
            code = 0
    except SystemExit as end:
        code = end.code or 0
    except BaseException:  # noqa: BLE001 - a user would see any exception
        code = traceback.format_exc()
    finally:
        os.chdir(here)
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return code, out.getvalue(), err.getvalue()


def judged(code: object, out: str, err: str, seconds: float) -> Outcome:
    """Return the outcome of a mistake. out, err: the printed text."""
    lines = [line for line in err.splitlines() if line.strip()]
    if isinstance(code, str) or "Traceback" in err + out:
        return Outcome("traceback", str(code if isinstance(code, str) else err)[-400:])
    if code == 0:
        return Outcome("silent", out[-200:])
    if seconds > MOST_S:
        return Outcome("slow", f"{seconds:.1f} s")
    line = lines[-1] if lines else ""
    plain = len(lines) == 1 and line.startswith("storelab: ") and line.count(": ") >= 2 and len(line) < 1000
    return Outcome("reported" if code == 2 and plain else "unclear", err[-400:])


def run_mistake(folder: Path, mistake: Mistake) -> Outcome:
    """Write the configuration, make it wrong, run the command, and return the outcome."""
    laid_out(folder)
    for name, data in mistake.files.items():
        (folder / name).write_bytes(data)
    begun = time.process_time()
    code, out, err = run(folder, mistake)
    return judged(code, out, err, time.process_time() - begun)


def counts(folder: Path, number: int, seed: int) -> tuple[Counter[str], list[tuple[Mistake, Outcome]]]:
    """Return how many of `number` mistaken inputs had each outcome, and those that were not reported properly."""
    found, bad = Counter[str](), []
    for mistake in inputs(number, seed):
        answer = run_mistake(folder, mistake)
        found[answer.outcome] += 1
        if answer.outcome != "reported":
            bad.append((mistake, answer))
    return found, bad


def tried(number: int, seed: int) -> dict[str, int]:
    """Return counts for `hardening.py`: mistakes, tracebacks, silent (accepted inputs) and unclear.

    `unclear` counts reports that are slow, or not one line with a place. Print each of these inputs to standard error.
    """
    with tempfile.TemporaryDirectory(prefix="storelab-mistaken-") as folder:
        found, bad = counts(Path(folder) / "here", number, seed)
    for mistake, answer in bad:
        print(f"{answer.outcome}: {mistake}: {answer.detail}", file=sys.stderr)
    other = found["unclear"] + found["slow"]
    return {"mistakes": number, "tracebacks": found["traceback"], "silent": found["silent"], "unclear": other}


# Generators of mistakes


def inputs(number: int, seed: int) -> Iterator[Mistake]:
    """Yield `number` mistaken inputs, with all kinds equally often."""
    rng = random.Random(seed)
    for i in range(number):
        yield FAMILIES[i % len(FAMILIES)](rng)


def _set(key: str, value: Any, command: str = "check", *more: str) -> tuple[str, ...]:
    return (*more, "--set", f"{key}={json.dumps(value)}", command)


def _word(rng: random.Random, least: int = 1, most: int = 12) -> str:
    return "".join(rng.choices(string.ascii_lowercase, k=rng.randint(least, most)))


def not_utf8(rng: random.Random) -> Mistake:
    text = CAMPAIGN.encode()
    place = rng.randrange(len(text))
    bad = bytes(rng.choices((0x80, 0xBF, 0xC0, 0xC1, 0xF5, 0xFE, 0xFF), k=rng.randint(1, 9)))
    return Mistake("not UTF-8", files={"campaigns/small.yaml": text[:place] + bad + text[place:]})


def binary(rng: random.Random) -> Mistake:
    data = b"\x00" + rng.randbytes(rng.randint(1, 3000))
    return Mistake("binary", files={rng.choice(("config.yaml", "campaigns/small.yaml")): data})


def no_yaml(rng: random.Random) -> Mistake:
    n = rng.randint(50, 6000)
    broken = rng.choice(
        (
            "[" * n,
            "{" * n,
            "a: " + "[" * n + "]" * n,
            "a: &x [*x]",
            "a: &x {b: *x}",
            "a: b: c",
            "- a\n- b",
            "\ta: 1",
            "a: 'open",
            "a: *none",
        )
    )
    return Mistake("no YAML", files={"campaigns/small.yaml": f"{CAMPAIGN}more:\n  {broken}\n".encode()})


def key_twice(rng: random.Random) -> Mistake:
    lines = CAMPAIGN.splitlines(keepends=True)
    again = rng.choice([line for line in lines if line.rstrip() != "sweeps:"])
    where = lines.index(again)
    lines.insert(where + 1, again)
    return Mistake("a key twice", files={"campaigns/small.yaml": "".join(lines).encode()})


def key_unknown(rng: random.Random) -> Mistake:
    """Add a letter to a key at any level: on the command line, in a file, or in Snakemake's --config."""
    parents = {
        "": ("measure", "stores", "limits", "results", "state", "name", "repetitions", "sweeps", "scale", "figures"),
        "limits.": ("objects", "buckets", "clients", "throughput"),
        "launcher.": ("kind", "nodes", "python"),
        "sweeps.up.": ("workload", "duration", "axes", "objects"),
        "sweeps.up.axes.": ("clients", "workers", "object_size", "engine"),
        "stores.far.": ("endpoint", "region", "profile"),
    }
    parent = rng.choice(list(parents))
    name = rng.choice(parents[parent])
    place = rng.randrange(1, len(name))
    wrong = name[:place] + rng.choice("qxz") + name[place:]
    value = rng.choice((1, "true", "x", [1], {"a": 1}))
    if parent != "sweeps.up.axes." and rng.random() < 0.3:
        nested: Any = value
        for part in reversed(f"{parent}{wrong}".split(".")):
            nested = {part: nested}
        return Mistake("an unknown key where nothing is measured", rebuild=nested)
    return Mistake("an unknown key", _set(parent + wrong, value))


NUMBERS = (
    "repetitions",
    "limits.objects",
    "limits.clients",
    "sweeps.down.objects",
    "seed",
    "scale",
    "failure_budget",
    "limits.error_fraction",
)
TIMES = (
    "sweeps.up.duration",
    "sweeps.up.warm_up",
    "gang_timeout",
    "start_delay",
    "launcher.heartbeat_timeout",
    "launcher.clock_bound",
)
NAMES = ("name", "stores.far.region", "stores_to_measure", "sweeps.up.stores")
TEXTS = (
    "results",
    "state",
    "scratch",
    "stores.far.ca_file",
    "stores.far.profile",
    "launcher.address",
    "launcher.python",
)


def number_wrong(rng: random.Random) -> Mistake:
    wrong = rng.choice(
        (-1, -rng.randint(1, 10**6), "many", [2], {}, True, None, "1 2", "0x", 10 ** rng.randint(300, 5000))
    )
    key = rng.choice(NUMBERS)
    if wrong is None and key == "limits.error_fraction":
        wrong = 2
    if rng.random() < 0.2:
        return Mistake("a number that is none", ("--set", f"{key}={rng.choice(('.inf', '-.inf', '.nan'))}", "check"))
    text = "1" + "0" * 4400 if isinstance(wrong, int) and wrong > 10**9 else json.dumps(wrong)
    return Mistake("a wrong number", ("--set", f"{key}={text}", "check"))


def time_wrong(rng: random.Random) -> Mistake:
    unit = rng.choice(("", " S", " sec", " hours", " MB", " ss", "s s"))
    wrong = rng.choice(
        (
            f"{rng.randint(1, 99)}{unit or ' x'}",
            rng.randint(1, 99),
            "-1 s",
            "s",
            "1,5 s",
            [1],
            "9" * 40 + " d",
            True,
            None,
        )
    )
    return Mistake("a wrong duration", _set(rng.choice(TIMES), wrong))


def time_nothing(rng: random.Random) -> Mistake:
    key = rng.choice(
        (
            "sweeps.up.duration",
            "gang_timeout",
            "launcher.heartbeat_timeout",
            "launcher.clock_bound",
            "launcher.clock_error",
        )
    )
    return Mistake("no time at all", _set(key, f"{rng.choice((0, 0, 1, 500, 99999))} ns"))


def size_wrong(rng: random.Random) -> Mistake:
    key = rng.choice(("limits.stored_bytes", "sweeps.up.axes.object_size", "stores.one.volume_size"))
    wrong = rng.choice(
        ("4 KB", "4", 4, "4 kb", "0.3 B", "-4 kB", "MB", "1 s", "9" * 50 + " B", "9" * 5000 + " PB", [], True)
    )
    return Mistake("a wrong size", _set(key, wrong))


def name_wrong(rng: random.Random) -> Mistake:
    key = rng.choice(NAMES)
    bad = rng.choice(
        ("", " ", "a b", "../up", "/", "a/b", "-x", ".x", "ä", "a\nb", "a;b", "$(x)", "x" * rng.randint(65, 400))
    )
    return Mistake("a wrong name", _set(key, [bad] if "stores" in key and "far" not in key else bad))


def sweep_named_wrong(rng: random.Random) -> Mistake:
    bad = rng.choice(("", " ", "a b", "a/b", "x" * 300, "_a", "a__b", "ü"))
    return Mistake("a wrong name of a sweep", _set("sweeps", {bad: {"workload": "put"}}))


def text_wrong(rng: random.Random) -> Mistake:
    key = rng.choice(TEXTS)
    bad = rng.choice(("", "  ", "a\nb", "a\0b", 5, [], {}, "~nobody-of-that-name/x"))
    if bad == "~nobody-of-that-name/x" and key not in ("results", "state", "scratch", "stores.far.ca_file"):
        bad = ""
    return Mistake("a wrong text", _set(key, bad))


def list_twice(rng: random.Random) -> Mistake:
    key, value = rng.choice(
        (
            ("sweeps.up.axes.clients", [1, 2, 1]),
            ("sweeps.up.axes.object_size", ["1 MB", "4 kB", "1000 kB"]),
            ("sweeps.up.axes.engine", ["s5cmd", "s5cmd"]),
            ("stores_to_measure", ["one", "one"]),
            ("sweeps.up.stores", ["one", "one"]),
            ("stores.far.profiles", ["a", "a"]),
            ("stores.one.front_end_addresses", ["127.0.0.1", "127.0.0.1"]),
        )
    )
    copies = rng.randint(1, 4)
    return Mistake("a value twice", _set(key, value + value[:1] * copies))


def endpoint_wrong(rng: random.Random) -> Mistake:
    host = f"{_word(rng)}.example.org"
    character = rng.choice(" ;|&$`<>(){}'\"\\*!\t,^")
    place = rng.randint(1, len(host) - 1)
    odd = host[:place] + character + host[place:]
    store, scheme, tail = rng.choice((("far", "https", ""), ("door", "https", "/folder"), ("far", "http", ":9000")))
    endpoint = rng.choice(
        (
            f"{scheme}://{odd}{tail}",
            host,
            f"ftp://{host}{tail}",
            f"{scheme}://{host}:{rng.randint(65536, 10**6)}",
            f"{scheme}://",
            "",
            f"{scheme}://-{host}",
            f"{scheme}://{'a' * 64}.org",
            f"{scheme}://user:secret@{host}",
            [f"https://{host}{tail}", f"http://a.{host}{tail}"],
            [f"https://{host}{tail}"] * 2,
            [],
            f"{scheme}://{host}?x=1",
            f"{scheme}://[::1",
        )
    )
    return Mistake("a wrong endpoint", _store(store, "endpoint", endpoint))


def _store(store: str, key: str, value: Any) -> tuple[str, ...]:
    """Return options to measure at this store, with an engine that supports it."""
    engine = (
        ("--set", "sweeps.up.axes.engine=fsspec", "--set", "sweeps.down.axes.engine=fsspec") if store == "door" else ()
    )
    return ("--set", f"stores_to_measure=[{store}]", *engine, *_set(f"stores.{store}.{key}", value))


def store_wrong(rng: random.Random) -> Mistake:
    address = ".".join(str(rng.randint(0, 255)) for _ in range(4))
    key, value = rng.choice(
        (
            (
                "bucket",
                rng.choice(
                    ("A", "ab", "a" * 64, "a_b", "a..b", "-ab", "ab-", address, "xn--abc", "abc-s3alias", "a b", "")
                ),
            ),
            ("prefix", rng.choice(("", "A", "-a", "a_b", "a/b", "a b", "a" * 80, "xn--a", "sthree-a"))),
            ("region", rng.choice(("", " ", "us east", "a/b"))),
            ("ca_file", rng.choice(("file", "none.pem", "campaigns"))),
            ("profile", f"nobody-{_word(rng)}"),
            ("profiles", [f"nobody-{_word(rng)}"]),
            ("preset", _word(rng)),
            ("addressing", _word(rng)),
            ("kind", f"s3{_word(rng)}"),
            ("buckets_per_account", rng.randint(-9, 0)),
        )
    )
    return Mistake("a wrong store", _store("far", key, value))


def folder_missing(rng: random.Random) -> Mistake:
    store = {"kind": "directory", "path": rng.choice((f"/nowhere/{_word(rng)}", "file", "", "x" * 300))}
    mine = rng.choice(({"path": f"/nowhere/{_word(rng)}.root"}, {"path": ""}, {"path": "campaigns"}))
    arguments = rng.choice(
        (
            ("--set", "stores_to_measure=[here]", *_set("stores.here", store)),
            _set("files.mine", mine),
            _set(rng.choice(("results", "state")), rng.choice(("file", f"file/{_word(rng)}", "x" * 300, "y/" * 600))),
            _set("scratch", f"/nowhere/{_word(rng)}"),
        )
    )
    return Mistake("nothing there", arguments)


def ports_shared(rng: random.Random) -> Mistake:
    first = rng.randint(1100, 21000)
    ports = ("--set", f"stores.one.port={first}", "--set", f"stores.two.port={first + rng.randint(-31, 31)}")
    return Mistake("ports shared", ("--set", "stores_to_measure=[one,two]", *ports, "check"))


def port_wrong(rng: random.Random) -> Mistake:
    return Mistake(
        "a wrong port", _set("stores.one.port", rng.choice((0, -1, 80, 65536, rng.randint(32001, 10**6), "x", True)))
    )


def plan_wrong(rng: random.Random) -> Mistake:
    key, value = rng.choice(
        (
            ("repetitions", rng.randint(10**6, 10**12)),
            ("sweeps.down.axes.buckets", rng.randint(9, 60)),
            ("sweeps.up.workload", f"put{_word(rng)}"),
            ("sweeps.up.axes.clients", []),
            ("sweeps.up.axes.clients", rng.randint(-5, 0)),
            ("sweeps.up.axes.clients", rng.randint(65, 10**8)),
            ("sweeps.up.axes.engine", _word(rng)),
            ("sweeps.up.warm_up", "2 s"),
            (
                "sweeps.up.axes",
                {
                    "clients": list(range(1, 64)),
                    "workers": list(range(1, 64)),
                    "part_size": [f"{n} MB" for n in range(5, 60)],
                },
            ),
            ("stores_to_measure", []),
            ("stores_to_measure", [_word(rng)]),
            ("sweeps.up.scale_axes", [_word(rng)]),
            ("limits.buckets", 1),
            ("figures.mine", {"table": "throughput", "x": _word(rng, 12, 20), "y": "rate"}),
            ("sweeps.up.axes.object_size", f"{rng.randint(2, 900)} TB"),
        )
    )
    return Mistake("a wrong plan", _set(key, value))


def command_wrong(rng: random.Random) -> Mistake:
    word = _word(rng, 13, 20)
    arguments: tuple[str, ...] = rng.choice(
        (
            (word,),
            ("check", f"--{word}"),
            ("check", word),
            ("--set", word, "check"),
            ("--set", "=1", "check"),
            ("--set", f"{word}..a=1", "check"),
            ("--set", "sweeps.up=[", "check"),
            ("--set", "sweeps={up: {workload", "check"),
            ("--config", word, "check"),
            ("--config", "campaigns", "check"),
            ("--configfile", word, "check"),
            ("--configfile", "/dev/zero", "check"),
            ("--set", f"campaign={word}", "check"),
            ("--set", "campaign=", "check"),
            ("--set", f"campaign={'c' * 300}", "check"),
            ("--set", "campaign=file", "check"),
            ("up", "one", "--front-ends", str(rng.randint(-3, 0))),
            ("up", word),
            ("up",),
            ("down", word),
            ("measure", f"one/put/{word}"),
            ("measure",),
            ("stage", "--store", word),
            ("stage", "--dataset", word),
            ("clean", word, "--yes"),
            ("tables", word),
            ("verify", "file"),
            ("figures", "--campaign-dir", word),
            ("figures", "--jobs", "0"),
            ("seal", f"results/{word}"),
            ("compare", word),
            ("compare", word, word),
            ("compare", word, "--stores", "a"),
            ("verdict",),
            ("collect",),
            ("size", "--link", rng.choice(("0 Gbit/s", "5", "x", "-1 Gbit/s", "")), "--client-link", "1 Gbit/s"),
            ("size", "--link", "1 Gbit/s", "--client-link", "0 B/s"),
            ("install", word),
            ("testbed", word),
            ("testbed", "up", "--folder", "x" * 300),
        )
    )
    return Mistake("a wrong command", arguments)


def rebuild_wrong(rng: random.Random) -> Mistake:
    word = _word(rng, 5, 12)
    wrong = rng.choice(
        (
            {"mesure": "true"},
            {"campain": word},
            {"measure": rng.choice(("yes", "1", "TRUE", 1, 0, None, "maybe"))},
            {"campaign": word},
            {"results": ""},
            {"name": rng.choice(("a b", "", "../x", "n" * 300))},
            {"results": f"/nowhere/{word}"},
            {word + "q": 1},
        )
    )
    return Mistake("a wrong rebuild", rebuild=wrong)


FAMILIES: tuple[Callable[[random.Random], Mistake], ...] = (
    not_utf8,
    binary,
    no_yaml,
    key_twice,
    key_unknown,
    number_wrong,
    time_wrong,
    time_nothing,
    size_wrong,
    name_wrong,
    sweep_named_wrong,
    text_wrong,
    list_twice,
    endpoint_wrong,
    store_wrong,
    folder_missing,
    ports_shared,
    port_wrong,
    plan_wrong,
    command_wrong,
    rebuild_wrong,
)


if __name__ == "__main__":
    print(json.dumps(tried(int(sys.argv[1]) if len(sys.argv) > 1 else 200, seed=20150413)))
