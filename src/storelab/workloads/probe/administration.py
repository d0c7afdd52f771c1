"""Questions to a managed store's own administration: what an evaluator meets who asks for users and their keys (level 2).

Asked by the coordinator, with the system's own tool, before the clients start. A second key that is made for the question is
removed at once; nothing of any key is told.
"""

import json
import secrets
import subprocess
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from storelab.workloads.probe.answers import DIFFERS, ERROR, NO, NOT_TRIED, YES


@dataclass(frozen=True)
class Told:
    """One row of the topic `administration`."""

    check: str
    answer: str
    evidence: str


USERS, KEYS = "users listed", "several keys per user"
TOOL_S = 30.0


def ask(store: Any) -> list[Told]:
    """Both questions, whatever the store. A tool that fails is an `error`: it says nothing of what the system can do."""
    kind = store.settings.kind
    if kind not in _ASK:
        why = f"storelab runs {kind} without users" if store.managed else "no administration that storelab may use"
        return [Told(name, NOT_TRIED, why) for name in (USERS, KEYS)]
    try:
        return _ASK[kind](store)
    except Exception as error:  # noqa: BLE001  a question beside the probe itself
        return [Told(name, ERROR, f"{type(error).__name__}: {' '.join(str(error).split())[:150]}") for name in (USERS, KEYS)]


def _listed(tool: str, found: Iterable[str], own: Iterable[str]) -> Told:
    found, own = set(found), set(own)
    there = len(found & own)
    answer = YES if there == len(own) else DIFFERS if there else NO
    return Told(USERS, answer, f"{tool}: {len(found)} users, {there} of the {len(own)} that storelab uses")


def _accounts(store: Any) -> list[str]:
    """Access keys of the accounts in use."""
    return [store.credentials(i).access_key for i in range(store.accounts())]


def _ceph(store: Any) -> list[Told]:
    tool, own = store.admin.tool, [f"storelab-{i}" for i in range(store.accounts())]
    listed = _listed("radosgw-admin user list", json.loads(tool("radosgw-admin", "user", "list")), own)

    def keys() -> set[str]:
        return {k["access_key"] for k in json.loads(tool("radosgw-admin", "user", "info", "--uid", own[0]))["keys"]}

    before = keys()
    tool("radosgw-admin", "key", "create", "--uid", own[0], "--key-type=s3", "--gen-access-key", "--gen-secret")
    made = keys() - before
    for key in made:
        tool("radosgw-admin", "key", "rm", "--uid", own[0], "--key-type=s3", "--access-key", key)
    good = len(made) == 1 and keys() == before
    return [listed, Told(KEYS, YES if good else NO, f"radosgw-admin key create: {len(before)} before, {len(before) + len(made)} after")]


def _versitygw(store: Any) -> list[Told]:
    from botocore.httpsession import URLLib3Session

    end = store.endpoints(1)[0]
    with closing(URLLib3Session(verify=end.ca_file or True, proxies={}, timeout=(5, TOOL_S))) as session:
        users = ElementTree.fromstring(store._ask(session, end, "list-users"))
    names = [e.text or "" for e in users.iter() if e.tag.rpartition("}")[2] == "Access"]
    return [_listed("list-users", names, _accounts(store)), Told(KEYS, NO, "a user is an access key, and has this one")]


def _minio(store: Any) -> list[Told]:
    from minio import MinioAdmin
    from minio.credentials import StaticProvider
    from urllib3 import PoolManager

    end = store.endpoints(1)[0]

    def admin(keys: Any) -> MinioAdmin:
        return MinioAdmin(
            endpoint=end.url.partition("//")[2],
            credentials=StaticProvider(keys.access_key, keys.secret_key),
            region=end.region,
            secure=end.url.startswith("https"),
            http_client=PoolManager(timeout=TOOL_S, retries=False, ca_certs=end.ca_file),
        )

    listed = _listed("list-users", json.loads(admin(store.root_keys()).user_list()), _accounts(store))
    first, key = store.credentials(0), "SLPROBE" + secrets.token_hex(6).upper()
    user = admin(first)
    user.add_service_account(access_key=key, secret_key=secrets.token_hex(20))
    try:
        there = key in user.list_service_account(first.access_key)
    finally:
        user.delete_service_account(key)
    evidence = "one pair of its own; further ones are service accounts, made and listed by the user itself"
    return [listed, Told(KEYS, DIFFERS if there else NO, evidence if there else "a service account that was made is not listed")]


def _seaweedfs(store: Any) -> list[Told]:
    """The front-ends have their users from a static file, as `weed s3 -config` offers; storelab runs no other way."""
    master, filer = (store.daemon(name).ports[0] for name in ("master", "filer"))
    done = subprocess.run(
        [str(store.program()), "shell", f"-master=127.0.0.1:{master}", f"-filer=127.0.0.1:{filer}"],
        input="s3.user.list\n",
        cwd=store.folder,
        capture_output=True,
        text=True,
        timeout=TOOL_S,
        check=True,
    )
    found = json.loads(done.stdout[done.stdout.index("[") : done.stdout.rindex("]") + 1])
    users = Told(USERS, NO, f"s3.user.list of weed shell: {len(found)} users; those of the static file of the front-ends are not shown")
    return [users, Told(KEYS, NOT_TRIED, "the static file takes a list of keys for each user; storelab gives one")]


_ASK: dict[str, Callable[[Any], list[Told]]] = {"ceph": _ceph, "versitygw": _versitygw, "minio": _minio, "seaweedfs": _seaweedfs}
