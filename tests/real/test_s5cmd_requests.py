"""HTTP requests that s5cmd sends for an operation, by mode, counted by a proxy; docs/records.md has these numbers."""

import os
import subprocess
from urllib.parse import urlsplit

import pytest
from counting_proxy import CountingProxy

from storelab.engines import s5cmd
from storelab.stores.protocols import environment
from storelab.stores.protocols.endpoint import Endpoint
from storelab.workloads.staging import buckets

pytestmark = [pytest.mark.real, pytest.mark.heavy]
BIG = 60_000_000  # two parts of 50 MiB


@pytest.fixture(scope="module")
def place(seaweedfs, tmp_path_factory):
    """Return (folder, bucket, run): `run` executes command lines through a proxy and returns the number of requests."""
    folder = tmp_path_factory.mktemp("requests")
    for name, size in (("small", 4000), ("big", BIG)):
        (folder / name).write_bytes(b"x" * size)  # the proxy takes a blank line for a request
    bucket = seaweedfs.bucket("requests", 0)
    buckets.ensure(seaweedfs, "requests", [bucket])
    at = urlsplit(seaweedfs.endpoints(1)[0].url)
    with CountingProxy(at.hostname, at.port) as proxy:
        endpoint = Endpoint(proxy.url)
        environ = environment.client(os.environ, endpoint, seaweedfs.credentials())

        def run(lines: list[str]) -> int:
            proxy.reset()
            command = [*s5cmd.command(endpoint, 4)]
            done = subprocess.run(
                command,
                input="\n".join(lines) + "\n",
                text=True,
                errors="replace",
                capture_output=True,
                env=environ,
                timeout=120,
            )
            assert done.returncode == 0, done.stderr
            return proxy.requests

        yield folder, bucket.name, run


def per_operation(run, line, few: int, many: int) -> float:
    """Return the requests per operation beyond what a run costs once; `line(i)` is the i-th command."""
    return (run([line(i) for i in range(many)]) - run([line(i) for i in range(few)])) / (many - few)


def test_put_and_get_cost_declared_requests(place):
    folder, bucket, run = place
    for file, size, many in (("small", 4000, 30), ("big", BIG, 3)):
        put = per_operation(run, lambda i, file=file: f"cp {folder}/{file} s3://{bucket}/{file}/{i}", 1, many)
        assert put == s5cmd.requests_per_operation("PUT", size)
        get = per_operation(run, lambda i, file=file: f"cp s3://{bucket}/{file}/{i} {folder}/down{i}", 1, many)
        assert get == s5cmd.requests_per_operation("GET", size)


def test_other_modes_cost_other_requests(place):
    folder, bucket, run = place
    run([f"cp {folder}/small s3://{bucket}/many/{i}" for i in range(10)])
    assert run([f"cp s3://{bucket}/many/* {folder}/all/"]) == 1 + 10, "one listing, one GET an object"
    assert per_operation(run, lambda i: f"cat s3://{bucket}/many/{i}", 1, 10) == 2


def test_server_without_multipart_gets_one_put(place):
    folder, bucket, run = place
    option = s5cmd.part_option(Endpoint("http://uds", multipart=False), BIG)
    assert per_operation(run, lambda i: f"cp {option}{folder}/big s3://{bucket}/whole/{i}", 1, 3) == 1
    assert s5cmd.requests_per_operation("PUT", BIG, multipart=False) == 1
    assert s5cmd.part_option(Endpoint("http://other"), BIG) == ""
