"""Record the golden campaigns: small real measurements, one folder each below tests/data/golden/<name>/raw/.

    python tests/support/record_golden.py [--list] [NAME ...]

No test runs this. It measures anew, so that tables and figures get other numbers: afterwards
`python tests/support/golden.py --update NAME` writes what is expected of them. Everything goes through the command line
of storelab, in a temporary folder; stores are stopped at the end. A campaign that wants a store that is not installed
here says so and is left out; what is there already is replaced only when its new record is complete. `nodes` wants
Slurm (storelab install slurm) and root.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from lying_proxy import LyingProxy
from paths import DATA

GOLDEN = DATA / "golden"
BIN = Path(sys.executable).parent
SHORT = {"duration": "600 ms", "warm_up": "100 ms", "objects": 16}
READ = {"duration": "1500 ms", "warm_up": "100 ms"}
TWO = {"clients": [1, 2], "workers": 2}
ENGINES = ["s5cmd", "fsspec", "obstore", "loadgen"]
IN_PARTS = ["s5cmd", "obstore", "loadgen"]  # fsspec has no part_size
VOLUME = {"volume_fraction": [100, 10, 1], "clients": [1, 2]}
OTHERS = ["nginx", "xrootd", "xrdhttp", "hdfs", "folder"]

TRANSFERS = {
    "small_up": {"workload": "put", **SHORT, "axes": {"engine": ENGINES, **TWO}},
    "small_down": {"workload": "get", **SHORT, "axes": {"engine": ENGINES, **TWO}},
    "large_up": {"workload": "put", **SHORT, "axes": {"object_size": ["1 MB", "2 MB"], "front_ends": [1, 2], **TWO}},
    "large_down": {"workload": "get", **SHORT, "axes": {"object_size": ["1 MB", "2 MB"], "front_ends": [1, 2], **TWO}},
    "many": {"workload": "get", **SHORT, "axes": {"clients": 4, "workers": 1, "front_ends": [1, 2]}},
    "parts_up": {
        "workload": "put",
        **SHORT,
        "axes": {"engine": IN_PARTS, "object_size": "12 MB", "part_size": ["0 B", "5 MiB"], "workers": 1},
    },
    "parts_down": {
        "workload": "get",
        **SHORT,
        "objects": 4,
        "axes": {
            "engine": IN_PARTS,
            "object_size": "12 MB",
            "part_size": "5 MiB",
            "parallel_parts": [0, 2],
            "workers": 1,
        },
    },
    "buckets_up": {"workload": "put", **SHORT, "axes": {"engine": "obstore", "buckets": [1, 2, 4], "workers": 4}},
    "buckets_down": {"workload": "get", **SHORT, "axes": {"engine": "obstore", "buckets": [1, 2, 4], "workers": 4}},
    "threads": {"workload": "get", **SHORT, "axes": {"engine": "loadgen", "workers": [1, 4, 8]}},
    "open": {
        "workload": "get",
        **SHORT,
        "axes": {"engine": ["obstore", "loadgen"], "arrival_rate": [50, 100, 200], "workers": 4},
    },
    "balance": {
        "workload": "get",
        **SHORT,
        "axes": {"engine": "loadgen", "balance": ["round_robin", "least_load"], "front_ends": 2, "workers": 2},
    },
    "owners": {"workload": "put", **SHORT, "axes": {"accounts": 2, "buckets": 2, "clients": 2, "workers": 1}},
    "signed": {
        "workload": "put",
        **SHORT,
        "axes": {"engine": "loadgen", "payload": ["unsigned", "sha256"], "workers": 1},
    },
    "encrypted": {
        "workload": "get",
        **SHORT,
        "axes": {"engine": ["obstore", "s5cmd"], "scheme": "https", "workers": 2},
    },
    "ranges": {
        "workload": "get_range",
        **SHORT,
        "objects": 4,
        "axes": {
            "engine": ["fsspec", "obstore", "loadgen"],
            "object_size": "1 MB",
            "range_size": ["4 kB", "64 kB"],
            "workers": 2,
        },
    },
    "gone": {
        "workload": "delete",
        "duration": "1 s",
        "warm_up": "10 ms",
        "objects": 200,
        "axes": {"engine": ["obstore", "loadgen"], "batch": [1, 20], "workers": 2},
    },
}
READS = {
    "volume": {"workload": "read_volume", **READ, "axes": {"engine": ["uproot-s3fs", "planned"], **VOLUME}},
    "entries": {
        "workload": "read_entries",
        **READ,
        "axes": {"engine": ["uproot-s3fs", "planned"], "entry_fraction": [100, 1, 0.1], "clients": [1, 2]},
    },
    "both": {
        "workload": "read_entries",
        **READ,
        "axes": {"engine": "planned", "entry_fraction": 1, "volume_fraction": 10},
    },
    "copies": {
        "workload": "read_volume",
        **READ,
        "axes": {"engine": "planned", "volume_fraction": 10, "clients": 2, "buckets": 2},
    },
    "codecs": {
        "workload": "read_volume",
        **READ,
        "axes": {"engine": "planned", "volume_fraction": 10, "codec": ["lz4", "zlib"]},
    },
    "cold": {
        "workload": "read_volume",
        **READ,
        "axes": {"engine": ["uproot-s3fs", "planned"], "volume_fraction": 10, "access": "cold"},
    },
    "header": {
        "workload": "read_volume",
        **READ,
        "axes": {"engine": "planned", "volume_fraction": 10, "access": "cold", "header": "cached"},
    },
    "presigned": {
        "workload": "read_volume",
        **READ,
        "axes": {"engine": "planned", "volume_fraction": 10, "transport": "http"},
    },
    "pieces": {
        "workload": "read_volume",
        **READ,
        "axes": {"engine": "uproot-s3fs", "volume_fraction": 10, "split": "64 KiB", "connections": 4},
    },
    "replayed": {"workload": "replay", **READ, "axes": {"engine": ["obstore", "fsspec"], **VOLUME}},
    "gaps": {
        "workload": "replay",
        **READ,
        "axes": {"volume_fraction": [50, 1], "merge": "gap", "max_range_gap": ["0 B", "32 KiB", "1 MiB"]},
    },
    "thrifty": {"workload": "replay", **READ, "axes": {"volume_fraction": [50, 1], "thrift": [3, 63]}},
    "bounded": {"workload": "replay", **READ, "axes": {"volume_fraction": [50, 1], "max_amplification": 2}},
}
NODE = {"navigation": ["scan", "random"], "clients": [1, 2], "files": 2, "step": 20, "volume_fraction": 1}
JOBS = {
    "plain": {"workload": "events", **READ, "axes": NODE},
    "ahead": {"workload": "events", **READ, "axes": NODE | {"cache": "readahead", "read_ahead": "1 MiB"}},
    "whole": {
        "workload": "events",
        **READ,
        "axes": NODE | {"cache": ["bytes", "blockcache"], "read_ahead": "256 KiB", "clients": 1},
    },
    "all": {"workload": "events", **READ, "axes": NODE | {"cache": "all", "clients": 1}},
    "planned": {"workload": "events", **READ, "axes": NODE | {"engine": "planned"}},
}
SYSTEMS = {
    "able_s3": {
        "workload": "probe",
        "duration": "5 min",
        "stores": ["seaweedfs"],
        "axes": {"accounts": 2, "most_buckets": 12},
    },
    "able": {"workload": "probe", "duration": "5 min", "stores": OTHERS},
    "true_s3": {
        "workload": "consistency",
        "duration": "3 s",
        "stores": ["seaweedfs"],
        "axes": {"clients": 2, "workers": 2},
    },
    "true": {
        "workload": "consistency",
        "duration": "3 s",
        "stores": OTHERS,
        "axes": {"engine": "fsspec", "clients": 2, "workers": 2},
    },
    "up": {
        "workload": "put",
        **SHORT,
        "axes": {"engine": "fsspec", "object_size": ["4 kB", "1 MB"], "clients": 2, "workers": 2},
    },
    "down": {
        "workload": "get",
        **SHORT,
        "axes": {"engine": "fsspec", "object_size": ["4 kB", "1 MB"], "clients": 2, "workers": 2},
    },
    "ranges": {"workload": "get_range", **SHORT, "objects": 4, "axes": {"object_size": "1 MB", "workers": 2}},
    "replayed": {"workload": "replay", **READ, "axes": {"engine": "fsspec", "volume_fraction": [50, 1]}},
    "planned": {"workload": "read_volume", **READ, "axes": {"engine": "planned", "volume_fraction": 10}},
    "several": {
        "workload": "read_volume",
        **READ,
        "stores": ["nginx", "xrdhttp"],
        "axes": {"engine": "planned", "volume_fraction": 10, "transport": "http"},
    },
    "jobs": {"workload": "events", **READ, "axes": {"volume_fraction": 5, "step": 20}},
}
DEPLOYED = {"servers": 3, "redundancy": ["none", "replica-2"]}
REDUNDANCY = {
    "places": {
        "workload": "get_range",
        **SHORT,
        "objects": 4,
        "axes": {"engine": "obstore", "object_size": "1 MB", "offset": ["sequential", "100 kB"], "workers": 1},
    },
    "up": {"workload": "put", **SHORT, "axes": {"object_size": "1 MB", "workers": 2, **DEPLOYED}},
    "down": {"workload": "get", **SHORT, "axes": {"object_size": "1 MB", "workers": 2, **DEPLOYED}},
    "one": {"workload": "put", **SHORT, "axes": {"object_size": "1 MB", "workers": 2, "backing": "tmpfs"}},
    "room": {"workload": "space", **SHORT, "axes": {"object_size": "100 kB", "workers": 2, **DEPLOYED}},
}
INTERVALS = {
    "small_up": {"workload": "put", **SHORT, "axes": {"clients": [1, 2], "workers": 1}},
    "small_down": {"workload": "get", **SHORT, "axes": {"engine": "obstore", "clients": [1, 2], "workers": 1}},
    "ranges": {
        "workload": "get_range",
        **SHORT,
        "objects": 4,
        "repetitions": 1,
        "axes": {"engine": "loadgen", "object_size": "1 MB", "workers": 1},
    },
    "gone": {
        "workload": "delete",
        "duration": "1 s",
        "warm_up": "10 ms",
        "objects": 200,
        "repetitions": 1,
        "axes": {"batch": 20, "workers": 1},
    },
}
FAILURES = {
    "aborted": {"workload": "get", **SHORT, "duration": "3 s", "axes": {"engine": "loadgen", "workers": 2}},
    "slow": {"workload": "get", **SHORT, "axes": {"engine": "loadgen", "arrival_rate": [50, 100], "workers": 2}},
}
INVALID = {
    "refused": {"workload": "get", **SHORT, "axes": {"engine": "obstore", "clients": [1, 2], "workers": 2}},
    "sound": {"workload": "put", **SHORT, "axes": {"engine": "obstore", "clients": [1, 2], "workers": 2}},
}
NODES = {
    "up": {"workload": "put", **SHORT, "axes": {"clients": 4, "workers": 1, "clients_per_node": [0, 2]}},
    "down": {"workload": "get", **SHORT, "axes": {"engine": "obstore", "clients": [2, 4], "workers": 1}},
    "entries": {"workload": "read_entries", **READ, "axes": {"engine": "planned", "entry_fraction": 1, "clients": 4}},
}
ROOT = {
    "volume": {
        "workload": "read_volume",
        **READ,
        "duration": "4 s",
        "axes": {"engine": "root", "volume_fraction": [100, 10]},
    },
    "entries": {
        "workload": "read_entries",
        **READ,
        "duration": "4 s",
        "axes": {"engine": "root", "entry_fraction": [100, 1]},
    },
}
CAMPAIGNS: dict[str, dict[str, Any]] = {
    "transfers": {"sweeps": TRANSFERS},
    "intervals": {"sweeps": INTERVALS, "repetitions": 6, "calibrate": True},
    "reads": {"sweeps": READS},
    "jobs": {"sweeps": JOBS},
    "systems": {"sweeps": SYSTEMS, "use_stores": ["seaweedfs", *OTHERS]},
    "redundancy": {"sweeps": REDUNDANCY},
    "failures": {"sweeps": FAILURES, "limits": {"requests_per_s": 400}},
    "invalid": {"sweeps": INVALID, "use_stores": ["refusing"]},
    "nodes": {"sweeps": NODES, "launcher": {"kind": "srun", "address": "127.0.0.1"}},
    "root": {"sweeps": ROOT, "use_stores": ["xrootd"]},
}


def free_ports(count: int, lowest: int = 14000) -> int:
    """First of so many free ports in a row, not below `lowest`, each with the port 10000 above it."""
    for first in range(lowest, 21900, 100):
        with contextlib.ExitStack() as held:
            try:
                for port in range(first, first + count):
                    for one in (port, port + 10000):
                        held.enter_context(socket.create_server(("127.0.0.1", one)))
            except OSError:
                continue
            return first
    raise SystemExit("no free ports")


def settings() -> dict[str, Any]:
    first = free_ports(100)
    return {
        "seaweedfs": {"kind": "seaweedfs", "port": first},
        "nginx": {"kind": "nginx", "port": first + 40},
        "xrootd": {"kind": "xrootd", "subnet": "10.213.81.0/30"},
        "xrdhttp": {"kind": "xrootd", "protocol": "http", "subnet": "10.213.82.0/30"},
        "hdfs": {"kind": "hdfs", "port": first + 58, "servers": 2},
        "folder": {"kind": "directory", "path": "/dev/shm"},
        "nullserver": {"kind": "nullserver", "port": first + 36},
        "refusing": {"kind": "s3", "endpoint": "http://127.0.0.1:9"},  # see the function of that name
    }


def environ(**more: str) -> dict[str, str]:
    return {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", **more}


def storelab(
    folder: Path, *arguments: str, around: tuple[str, ...] = (), **variables: str
) -> subprocess.CompletedProcess:
    command = [*around, str(BIN / "storelab"), *arguments]
    return subprocess.run(command, cwd=folder, env=environ(**variables), capture_output=True, text=True)


def keys_of(folder: Path, **variables: str) -> list[str]:
    done = storelab(folder, "plan", **variables)
    if done.returncode:
        raise SystemExit(done.stderr)
    return [line.split()[-1] for line in done.stdout.splitlines()]


@contextlib.contextmanager
def refusing(folder: Path, config: dict[str, Any]) -> Iterator[dict[str, str]]:
    """A store `refusing`: SeaweedFS behind a proxy that refuses every tenth download; with the keys of its first
    account.
    """
    done = storelab(folder, "up", "seaweedfs")
    if done.returncode:
        raise SystemExit(done.stderr)
    known = json.loads(next((folder / "state").rglob("s3.json")).read_text())
    keys = next(i for i in known["identities"] if i.get("credentials"))["credentials"][0]
    with LyingProxy([("127.0.0.1", int(done.stdout.rsplit(":", 1)[1].strip().strip("/")))], {"failures"}) as proxy:
        config["stores"]["refusing"] = {"kind": "s3", "endpoint": proxy.urls[0]}
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        yield {"AWS_ACCESS_KEY_ID": keys["accessKey"], "AWS_SECRET_ACCESS_KEY": keys["secretKey"]}


@contextlib.contextmanager
def testbed(folder: Path) -> Iterator[tuple[str, ...]]:
    """A Slurm of four nodes on loopback; the words that stand before a command in it."""
    bed = folder / "bed"
    done = storelab(folder, "testbed", "up", "--folder", str(bed), "--nodes", "4", "--port", str(free_ports(20, 18000)))
    if done.returncode:
        raise SystemExit(done.stderr)
    try:
        yield str(BIN / "storelab"), "testbed", "run", "--folder", str(bed), "--", "salloc", "-N4"
    finally:
        storelab(folder, "testbed", "down", "--folder", str(bed))


def anonymous(raw: Path, folder: Path) -> None:
    """Neither this host's name nor the temporary folder stays in the records."""
    for path in [*raw.rglob("*.json")]:
        text = path.read_text()
        changed = re.sub(rf"\b{re.escape(socket.gethostname())}\b", "host", text.replace(str(folder), "LAB"))
        if changed != text:
            path.write_text(changed)


def record(name: str, about: dict[str, Any]) -> None:
    folder = Path(tempfile.mkdtemp(prefix="storelab-golden-"))
    config = {"campaign": name, "results": "results", "state": str(folder / "state"), "stores": settings()}
    campaign = {
        "name": name,
        "title": f"Golden records: {name}",
        "authors": ["The storelab developers"],
        "use_stores": ["seaweedfs"],
        "repetitions": 1,
        "calibrate": False,
    }
    (folder / "campaigns").mkdir()
    (folder / "campaigns" / f"{name}.yaml").write_text(yaml.safe_dump(campaign | about))
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    try:
        with contextlib.ExitStack() as around:
            keys = around.enter_context(refusing(folder, config)) if "refusing" in about.get("use_stores", ()) else {}
            before = around.enter_context(testbed(folder)) if "launcher" in about else ()
            planned = keys_of(folder, **keys)
            done = storelab(folder, "plan", "--write", around=before, **keys)
            if done.returncode:
                raise SystemExit(done.stderr)
            print(f"{name}: {len(planned)} points", flush=True)
            for key in planned:
                done = storelab(folder, "measure", key, around=before, **keys)
                if done.returncode == 2:
                    raise SystemExit(f"{key}: {done.stderr}")
                if done.returncode and name != "failures":  # once more: the machine may have been busy
                    done = storelab(folder, "measure", key, around=before, **keys)
                if done.returncode:
                    print(f"    {key}: {done.stderr.strip().splitlines()[-1]}", flush=True)
            raw = folder / "results" / name / "raw"
            anonymous(raw, folder)
            done = storelab(folder, "collect", **keys)
            if done.returncode:
                raise SystemExit(done.stderr)
        target = GOLDEN / name / "raw"
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(raw, target)
        size = sum(p.stat().st_size for p in target.rglob("*") if p.is_file())
        print(f"{name}: {size / 1000:.0f} kB", flush=True)
    finally:
        storelab(folder, "down", "--all")
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="campaigns; default: all")
    parser.add_argument("--list", action="store_true", help="only print their names")
    args = parser.parse_args()
    if args.list:
        print("\n".join(CAMPAIGNS))
        return
    for name in args.names or CAMPAIGNS:
        try:
            record(name, CAMPAIGNS[name])
        except SystemExit as error:
            print(f"{name}: left out: {error}", flush=True)


if __name__ == "__main__":
    main()
