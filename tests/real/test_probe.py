"""The probe through `measure.point` on SeaweedFS; test_store_contract.py probes other stores.

Its answers are cross-checked with urllib3 and botocore's signatures, which the probe does not use.
"""

import hashlib
import json
import random
import zlib
from base64 import b64encode

import managed
import pyarrow.parquet as pq
import pytest
import urllib3
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from laboratory import anything, bucket_for, missing
from store_clients import for_store

from storelab.core.errors import MeasurementFailed
from storelab.core.model import Point
from storelab.engines import davix_program as davix
from storelab.workloads.probe import workload
from storelab.workloads.probe.workload import checks
from storelab.workloads.staging import buckets, written

pytestmark = pytest.mark.real
HEAVY = pytest.mark.heavy


def configure(folder, settings, name="probed", store="one", duration="60 s", **more):
    """Return the laboratory of one probe; `more`: its axes, and `state`."""
    place = {"state": str(more.pop("state"))} if "state" in more else {}
    sweep = {"workload": "probe", "duration": duration, "warm_up": "1 ms", "axes": more}
    return managed.Lab(folder, settings, {"p": sweep}, store, campaign=name, name=name, **place)


def measured(lab):
    """Return (record, {(topic, check): row of the answers of client 0})."""
    _, record, at = lab.measured("p")
    rows = pq.read_table(at / "answers.0.parquet").to_pylist()
    return record, {(r["topic"], r["check"]): r for r in rows}


def configured(seaweedfs, folder, name, **more):
    settings = {"kind": "seaweedfs", "port": seaweedfs.settings.port}
    return configure(folder, settings, name, seaweedfs.name, state=seaweedfs.state, **more)


DAVIX = ("not tried", "install davix") if missing(davix.binary) else ("differs", "11 requests")
# What SeaweedFS 4.48 does not do, or otherwise; all else is `yes`. By hand: multi-range whole object, versioning, 412.
SEAWEEDFS = {
    ("ranges", "multi-range 2"): ("no", "whole object: 200, 2400000 bytes"),
    ("ranges", "multi-range 200"): ("no", "whole object: 200, 2400000 bytes"),
    ("ranges", "multi-range 1500"): ("no", "whole object: 200, 2400000 bytes"),
    ("checksums", "SHA-256 of the payload verified"): ("no", "a wrong x-amz-content-sha256 is accepted"),
    ("anonymous", "public object by ACL"): ("no", "x-amz-acl is accepted, but the answer without keys is 403"),
    ("connection", "HTTPS"): ("not tried", "the endpoint is http"),
    ("delete", "1001 keys at once"): ("no", "refused with 400"),
    ("administration", "users listed"): ("no", "0 users"),
    ("administration", "several keys per user"): ("not tried", "static file"),
    ("ranges", "davix, 10 ranges"): DAVIX,
}


@pytest.fixture(scope="module")
def probed(seaweedfs, tmp_path_factory):
    """Return (configuration, record, answers) of one probe of the running SeaweedFS with two accounts."""
    lab = configured(seaweedfs, tmp_path_factory.mktemp("probe"), "probed", max_buckets=4, accounts=2)
    own, spare = (bucket_for(seaweedfs, "probed", index) for index in (0, workload.SPARE + 2))
    foreign = bucket_for(seaweedfs, "other")
    point = Point("", "probe", {"clients": 1}, 1, "", "", 0, 0)
    written.note_attempt(lab.config, seaweedfs, "dead", point, workload.PROBE.expected_objects(point, "dead"))
    s3 = for_store(seaweedfs)
    s3.put_object(Bucket=own.name, Key="data/kept", Body=b"kept")
    s3.put_object(Bucket=own.name, Key="probe/mine", Body=b"of somebody")
    s3.put_object(Bucket=own.name, Key="probe/dead/0/left", Body=b"of a probe that was killed")
    s3.create_multipart_upload(Bucket=own.name, Key="probe/dead/0/begun")
    s3.put_bucket_versioning(Bucket=spare.name, VersioningConfiguration={"Status": "Enabled"})
    for body in (b"1", b"2"):
        s3.put_object(Bucket=spare.name, Key="v", Body=body)
    s3.put_object(Bucket=foreign.name, Key="probe/a", Body=b"of another campaign")
    return lab.config, *measured(lab)


def test_answers_of_seaweedfs(probed):
    _, record, found = probed
    assert list(found)[:-2] == [(c.topic, c.name) for c in checks("s3")] and len(found) == len(set(found)) > 65
    for place, row in found.items():
        answer, evidence = SEAWEEDFS.get(place, ("yes", ""))
        assert row["answer"] == answer and evidence in row["evidence"], row
        assert row["evidence"] and row["start_ns"] <= row["end_ns"]
    assert record["engine"]["name"] == "wire" and record["clients"][0]["errors"] == 0
    assert record["clients"][0]["engine"]["details"]["ranges: multi-range 200"]["verdict"] == "whole object"
    assert "4 made, listed and removed" in found["buckets", "per account"]["evidence"]
    assert "412" in found["conditional", "put if absent"]["evidence"]
    assert record["clients"][0]["end_ns"] < record["deadline_ns"]  # it ends when all is asked


def test_probe_leaves_nothing(probed, seaweedfs):
    s3 = for_store(seaweedfs)
    own = buckets.campaign_buckets(seaweedfs, "probed")
    assert [b.name for b in own] == [seaweedfs.bucket("probed", 0, account).name for account in range(2)]
    left = [[k for k, _ in buckets.list_keys(buckets.accesses(seaweedfs, [b])[b.account], b)] for b in own]
    assert left == [["data/kept", "probe/mine"], []]
    assert not s3.list_multipart_uploads(Bucket=own[0].name).get("Uploads")
    other = seaweedfs.bucket("other", 0)
    assert s3.get_object(Bucket=other.name, Key="probe/a")["Body"].read() == b"of another campaign"
    assert buckets.remove(seaweedfs, "other", anything)[:2] == (1, 1)


@HEAVY
def test_clean_removes_bucket_with_versions(seaweedfs):
    """Remains of a killed probe are removed, but never objects that can be read and belong to others."""
    bucket, s3 = bucket_for(seaweedfs, "versions", workload.SPARE), for_store(seaweedfs)
    s3.put_bucket_versioning(Bucket=bucket.name, VersioningConfiguration={"Status": "Enabled"})
    for body in (b"1", b"2", b"3"):
        s3.put_object(Bucket=bucket.name, Key="v", Body=body)
    with pytest.raises(MeasurementFailed, match=r"still contains .* and is not removed"):
        seaweedfs.access().drop_bucket(bucket.name)
    assert s3.get_object(Bucket=bucket.name, Key="v")["Body"].read() == b"3"
    assert buckets.remove(seaweedfs, "versions", anything)[:2] == (1, 1)
    assert bucket.name not in seaweedfs.access().bucket_names()


@HEAVY
def test_operations_have_no_bytes(probed):
    config, _, found = probed
    rows = pq.read_table(next(config.raw.rglob("ops.0.parquet"))).to_pylist()
    assert len(rows) == len(found) and {r["op"] for r in rows} == {"PROBE"} and {r["bytes"] for r in rows} == {0}
    files = json.loads(next(config.raw.rglob("run.json")).read_text())["files"]
    assert {r["error"] for r in rows} == {None} and "answers.0.parquet" in files


@HEAVY
def test_results_contain_no_keys(probed, seaweedfs):
    config = probed[0]
    secrets = [part for i in range(2) for k in [seaweedfs.credentials(i)] for part in (k.access_key, k.secret_key)]
    files = [p for p in config.campaign_dir.rglob("*") if p.is_file()]
    assert len(files) > 3
    for path in files:
        text = path.read_bytes()
        if path.suffix == ".parquet":
            text = json.dumps(pq.read_table(path).to_pylist()).encode()
        assert not any(s.encode() in text for s in secrets), path


# The same questions, asked with other means.


@pytest.fixture(scope="module")
def raw(seaweedfs):
    """Return a function that sends one request with urllib3, signed by botocore, without redirects or retries."""
    end, keys = seaweedfs.endpoints(1)[0], seaweedfs.credentials()
    pool = urllib3.PoolManager(retries=False)
    bucket = bucket_for(seaweedfs, "crosscheck")

    def send(method, key, body=b"", sign=True, query="", **headers):
        url = f"{end.url}/{bucket.name}/{key}{query}"
        request = AWSRequest(method, url, data=body, headers={k.replace("_", "-"): v for k, v in headers.items()})
        if sign:
            S3SigV4Auth(Credentials(keys.access_key, keys.secret_key), "s3", end.region).add_auth(request)
        return pool.request(method, url, body=body or None, headers=dict(request.headers.items()), redirect=False)

    yield send
    buckets.remove(seaweedfs, "crosscheck", anything)


def answers(probed, *topics) -> dict[str, str]:
    """Return the answer of the probe to each question about these topics."""
    return {check: row["answer"] for (topic, check), row in probed[2].items() if topic in topics}


BODY = random.Random(9).randbytes(2_400_000)


@HEAVY
def test_ranges_cross_checked(probed, raw):
    assert raw("PUT", "known", BODY).status == 200

    def get(value):
        return raw("GET", "known", Range=f"bytes={value}")

    found = answers(probed, "ranges")
    one, suffix, rest, beyond = get("123456-133455"), get("-5000"), get("2393000-"), get("2399900-2400100")
    assert [r.status for r in (one, suffix, rest, beyond)] == [206] * 4
    assert (one.data, suffix.data) == (BODY[123456:133456], BODY[-5000:])
    assert (rest.data, beyond.data) == (BODY[2393000:], BODY[-100:])
    assert {found[c] for c in ("single range", "suffix range", "open range", "range beyond the end")} == {"yes"}
    assert get("2400010-2400020").status == 416 and found["unsatisfiable range"] == "yes"
    for count in (2, 200, 1500):
        answer = get(",".join(f"{i * 1600}-{i * 1600 + 30}" for i in range(count)))
        assert (answer.status, answer.data == BODY) == (200, True), "whole object"
        assert "multipart" not in answer.headers["Content-Type"] and found[f"multi-range {count}"] == "no"


@HEAVY
def test_conditions_cross_checked(probed, raw):
    found = answers(probed, "conditional")
    assert set(found.values()) == {"yes"} and len(found) == 6
    assert raw("PUT", "c", b"first", If_None_Match="*").status == 200
    assert raw("PUT", "c", b"intruder", If_None_Match="*").status == 412
    assert raw("PUT", "c", b"intruder", If_Match=f'"{"0" * 32}"').status == 412
    got = raw("GET", "c")
    assert got.data == b"first"
    tag, date = got.headers["ETag"], got.headers["Last-Modified"]
    assert tag == f'"{hashlib.md5(b"first").hexdigest()}"'
    assert raw("GET", "c", If_None_Match=tag).status == 304 and raw("GET", "c", If_Modified_Since=date).status == 304
    assert raw("GET", "c", If_Match='"no"').status == 412
    assert raw("GET", "c", If_Unmodified_Since="Mon, 01 Jan 2001 00:00:00 GMT").status == 412
    assert raw("PUT", "c", b"second", If_Match=tag).status == 200 and raw("GET", "c").data == b"second"


@HEAVY
def test_checksums_cross_checked(probed, raw):
    found = answers(probed, "checksums")
    wrong = hashlib.sha256(b"other").hexdigest()  # signed with it: botocore takes what is there
    assert raw("PUT", "s", b"body", X_Amz_Content_SHA256=wrong).status == 200
    assert raw("GET", "s").data == b"body" and found["SHA-256 of the payload verified"] == "no"
    assert raw("PUT", "m", b"body", Content_MD5=b64encode(hashlib.md5(b"other").digest()).decode()).status == 400
    assert raw("GET", "m").status == 404 and found["Content-MD5 verified"] == "yes"
    crc = b64encode(zlib.crc32(b"other").to_bytes(4, "big")).decode()
    assert raw("PUT", "crc", b"body", x_amz_checksum_crc32=crc).status == 400 and found["CRC32 verified"] == "yes"


@HEAVY
def test_presigned_urls_cross_checked(probed, raw, seaweedfs):
    found = answers(probed, "presigned", "anonymous")
    s3, bucket = for_store(seaweedfs), seaweedfs.bucket("crosscheck", 0).name

    def query(act, key="p", seconds=60):
        url = s3.generate_presigned_url(act, Params={"Bucket": bucket, "Key": key}, ExpiresIn=seconds)
        return "?" + url.partition("?")[2]

    assert raw("PUT", "p", b"signed", sign=False, query=query("put_object")).status == 200
    good = query("get_object")
    assert raw("GET", "p", sign=False, query=good).data == b"signed"
    assert raw("GET", "p", sign=False, query=good[:-1] + ("0" if good[-1] != "0" else "1")).status == 403
    assert raw("PUT", "p", b"intruder", sign=False, query=good).status == 403
    assert raw("PUT", "q", b"other", sign=True).status == 200
    assert raw("GET", "q", sign=False, query=good).status == 403
    short = query("get_object", seconds=1)
    assert raw("GET", "p", sign=False).status == 403
    managed.until(lambda: raw("GET", "p", sign=False, query=short).status == 403)
    assert raw("GET", "p").data == b"signed"
    refused = [c for c in found if "refused" in c]
    assert len(refused) == 4 and {found[c] for c in [*refused, "get", "put", "private by default"]} == {"yes"}


@HEAVY
def test_deadline_leaves_questions_untried(seaweedfs, tmp_path):
    lab = configured(seaweedfs, tmp_path, "short", duration="400 ms")
    record, found = measured(lab)
    assert found["ranges", "single range"]["answer"] in ("yes", "not tried")
    late = found["buckets", "per account"]
    assert (late["answer"], late["evidence"]) == ("not tried", "the point's duration ended before")
    assert not {r["answer"] for (topic, _), r in found.items() if topic != "administration"} & {"error"}
    assert record["clients"][0]["end_ns"] == record["deadline_ns"]
    assert buckets.remove(seaweedfs, "short", anything)[:2] == (0, 1)


@HEAVY
def test_clients_ask_at_their_front_ends(seaweedfs, tmp_path):
    lab = configured(seaweedfs, tmp_path, "probed-by-many", duration="1500 ms", clients=2, front_ends=2)
    record, _ = measured(lab)
    assert len({c["endpoint"] for c in record["clients"]}) == 2
    second = pq.read_table(next(lab.config.raw.rglob("answers.1.parquet"))).to_pylist()
    asked_once = {"buckets", "versioning", "administration"}
    assert {r["client"] for r in second} == {1} and not {r["topic"] for r in second} & asked_once
    assert buckets.remove(seaweedfs, "probed-by-many", anything).buckets == 1


@HEAVY
def test_directory(tmp_path):
    (tmp_path / "data").mkdir()
    found = measured(configure(tmp_path, {"kind": "directory", "path": str(tmp_path / "data")}))[1]
    assert {r["answer"] for (topic, _), r in found.items() if topic != "administration"} == {"yes"}
    assert not [p for p in (tmp_path / "data").rglob("*") if p.is_file() and p.name != ".storelab"]
