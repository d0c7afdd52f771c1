"""Run all S3 clients of storelab in the current environment: `python every_client.py ENDPOINT CLIENT …`.

ENDPOINT is JSON. KEYS are the credentials of the store. Each client writes the object `<client>`, and each library
reads it. The output is JSON: client -> error.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from readplan.transports import WrongAnswer
from storelab import install
from storelab.stores.protocols import environment, filesystems
from storelab.stores.protocols.endpoint import Bucket, Credentials, Endpoint

KEYS = Credentials("FIRSTKEY", "first-secret")
BODY = b"0123456789"


def unset(home: Path) -> dict[str, str]:
    """Return an environment without settings of the user."""
    kept = ("PATH", "PYTHONPATH", "LANG")
    mine = {"HOME": str(home), "STORELAB_TOOLS": str(install.tools_folder())}
    return {name: value for name, value in os.environ.items() if name in kept} | mine


def run(endpoint: Endpoint, environ: dict[str, str], *names: str) -> dict[str, str]:
    """Run clients in a process with this environment. Return client -> error."""
    words = [sys.executable, __file__, json.dumps(asdict(endpoint)), *names]
    done = subprocess.run(words, env=environ | KEYS.environ(), capture_output=True, text=True, timeout=120)
    assert done.stdout, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def requests(server) -> list[tuple]:
    """Return the parts of all requests that must not change.

    These are method, key, names in the query, names of headers, the scope of the signature, and the user agent. The
    parts of the user agent are sorted, because botocore lists its features in any order.
    """
    found = []
    for method, path, headers in server.received:
        key, _, query = path.partition("?")
        scope = re.sub(r"/\d{8}/", "/", "".join(re.findall(r"Credential=[^,]*", headers.get("Authorization", ""))))
        agent = sorted(re.split("[ ,]|m/", headers.get("User-Agent", "")))
        found.append((method, key, re.findall(r"([\w-]+)=", query), sorted(map(str.lower, headers)), scope, agent))
    server.received.clear()
    return found


def by_boto(end: Endpoint, keys: Credentials) -> None:
    from storelab.stores.protocols import s3_clients

    s3 = s3_clients.client(end, keys)
    s3.put_object(Bucket="b", Key="boto", Body=BODY)
    assert s3.get_object(Bucket="b", Key="boto")["Body"].read() == BODY


def by_obstore(end: Endpoint, keys: Credentials) -> None:
    import obstore

    from storelab.stores.protocols import s3_clients

    store = s3_clients.store(end, "b", {"timeout": "10s"})
    obstore.put(store, "obstore", BODY, use_multipart=False)
    assert obstore.get(store, "obstore").bytes() == BODY


def by_fsspec(end: Endpoint, keys: Credentials) -> None:
    fs = filesystems.data(end, keys.environ(), 1)
    fs.pipe_file("b/fsspec", BODY)
    assert fs.cat_file("b/fsspec") == BODY


def by_uproot(end: Endpoint, keys: Credentials) -> None:
    from storelab.engines import uproot

    counter = uproot.TrafficCounter()
    fs = uproot.filesystem(end, counter, uproot.settings(end, 1, 10))
    fs.pipe_file("b/uproot", BODY)
    assert fs.cat_file("b/uproot") == BODY


def by_presigned(end: Endpoint, keys: Credentials) -> None:
    from storelab.engines import planned

    transport = planned.counted_transport(end, Bucket("b"), "boto", "obstore", 1, 10, "http")
    try:
        transport.size()
    except WrongAnswer as answer:
        assert answer.status == 200, answer  # the server of the tests does not support ranges


def by_s5cmd(end: Endpoint, keys: Credentials) -> None:
    from storelab.engines import s5cmd

    with tempfile.NamedTemporaryFile() as body:
        body.write(BODY)
        body.flush()
        done = subprocess.run(
            s5cmd.command(end, 1),
            input=f"cp {body.name} s3://b/s5cmd\n",
            env=environment.client(os.environ, end, keys),
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert not done.returncode, done.stderr


def by_loadgen(end: Endpoint, keys: Credentials) -> None:
    from storelab.engines import loadgen
    from storelab.workloads.staging import upload

    now = time.time_ns()
    with tempfile.TemporaryDirectory() as folder:
        body = Path(folder) / "body"
        body.write_bytes(BODY)
        job = {
            "schema": loadgen.SCHEMA,
            "endpoints": loadgen.described([end]),
            "buckets": ["b"],
            "operations": [{"op": "PUT"}],
            "objects": {"key": ["loadgen"], "bucket": [0], "body": [0], "size": [len(BODY)]},
            "object_size": len(BODY),
            "bodies": [str(body)],
            "workers": 1,
            "records": f"{folder}/ops.parquet",
            "start_ns": now,
            "deadline_ns": now + 30 * 10**9,
            "timeout_s": 10,
        }
        summary = upload._run_loadgen(job, keys.environ(), lambda more: None)
    assert not summary["errors"], summary


def by_davix(end: Endpoint, keys: Credentials) -> None:
    from storelab.engines import davix

    transport = davix.DavixTransport(end, "b/boto", 10)
    assert bytes(transport.vector([0], [len(BODY)])[0]) == BODY
    transport.close()


def main() -> None:
    end, keys, failed = Endpoint(**json.loads(sys.argv[1])), KEYS, {}
    for name in sys.argv[2:]:
        try:
            globals()[f"by_{name}"](end, keys)
        except Exception as error:  # noqa: BLE001 - whatever a library raises is reported
            failed[name] = f"{type(error).__name__}: {error}"[:500]
    print(json.dumps(failed), flush=True)
    os._exit(0)  # because obstore can abort at the shutdown of the interpreter


if __name__ == "__main__":
    main()
