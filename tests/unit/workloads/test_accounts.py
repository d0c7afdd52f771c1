"""More accounts than clients: whose keys a client has, which buckets it uses, what it deletes and reads."""

import itertools
from types import SimpleNamespace

import pytest

from storelab.core.errors import UserError
from storelab.core.model import Point
from storelab.engines.common import s3_library
from storelab.engines.common.transfers import TransferClient
from storelab.engines.contract import Job
from storelab.engines.obstore.transfers import ObstorePut
from storelab.measure import jobs
from storelab.stores.protocols.endpoint import Bucket, Credentials, Endpoint
from storelab.workloads import mix
from storelab.workloads.objects import delete


def at(clients: int, accounts: int, **axes) -> Point:
    values = {"clients": clients, "workers": 2, "object_size": 10, "engine": "obstore", "accounts": accounts} | axes
    return Point("a", "put", values, 1, "key", "s", 7, 0, {"duration_ns": 10**9, "warm_up_ns": 0, "data_seed": 1})


def environs(one: Point, accounts: int, roles=()) -> list[dict[str, str]]:
    job = {"accounts": accounts} | ({"roles": roles} if roles else {})
    store = SimpleNamespace(credentials=lambda i: Credentials(f"key{i}", f"secret{i}", f"token{i}"))
    return jobs.environs(None, one, store, job)


def test_a_client_gets_the_keys_of_all_accounts_that_it_uses(monkeypatch):
    first, second = environs(at(2, 5), 5)
    assert first["AWS_ACCESS_KEY_ID"] == "key0" and second["AWS_ACCESS_KEY_ID"] == "key1"
    for environ, own in ((first, (2, 4)), (second, (3,))):
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        for account in own:
            keys = s3_library.keys(account)
            assert keys == Credentials(f"key{account}", f"secret{account}", f"token{account}")
    with pytest.raises(UserError, match="STORELAB_ACCOUNT_9_ACCESS_KEY_ID"):
        s3_library.keys(9)
    told = "\n".join(map(str, (first, second)))
    assert all(told.count(f"'secret{i}'") == 1 for i in range(5)), "each account's keys go to one client"


def test_as_many_clients_as_accounts_have_the_keys_by_account():
    assert [e["AWS_ACCESS_KEY_ID"] for e in environs(at(7, 3), 3)] == ["key0", "key1", "key2"]
    assert [e["AWS_ACCESS_KEY_ID"] for e in environs(at(3, 2), 2, roles=[1])] == ["key0", "key1", "key0"]


def job(tmp_path, client: int, clients: int, accounts: int, buckets: int) -> Job:
    places = [Bucket(f"b{i}", "", i % accounts) for i in range(buckets)]
    own = tuple(a for a in range(accounts) if a % clients == client)
    end = Endpoint("http://127.0.0.1:9")
    return Job(at(clients, accounts), client, end, places, tmp_path, None, account=own[0], accounts=own)


def test_uploads_take_the_buckets_of_all_its_accounts_in_turn(tmp_path):
    class Puts(TransferClient):
        def prepare(self): ...
        def run(self, start_ns, deadline_ns): ...
        def result(self): ...

    puts = Puts(job(tmp_path, 0, 2, 5, 10))
    assert [puts.upload(n).place.account for n in range(6)] == [0, 2, 4, 0, 2, 4]
    assert {puts.upload(n).place.name for n in range(6)} == {"b0", "b2", "b4", "b5", "b7", "b9"}


def test_the_store_of_a_bucket_signs_for_its_account(tmp_path, monkeypatch):
    asked = []

    def store(endpoint, bucket, waits, account=None, **options):
        asked.append((bucket, account))
        return account

    monkeypatch.setattr(s3_library, "store", store)
    client = ObstorePut(job(tmp_path, 0, 2, 5, 10))
    client.obstore = SimpleNamespace(head=lambda *_: None)
    client.open()
    assert [client.stores[i] for i in client.own] == [None, 2, 4, None, 2, 4], "None: the first account's, as ever"
    assert sorted(asked, key=str) == [(None, 2), (None, 4), (None, None)]


@pytest.mark.parametrize(("clients", "accounts"), [*itertools.product((1, 2, 3, 5), (1, 2, 3, 5))])
def test_deletions_are_shared_out_by_account_and_each_object_once(clients, accounts):
    owners = [i % accounts for i in range(10)]
    keys = [(i % 10, f"k{i}") for i in range(60)]
    shares = delete.shared_out(keys, owners, clients, accounts)
    assert sorted(key for share in shares for key in share) == sorted(keys)
    for client, share in enumerate(shares):
        own = {a for a in range(accounts) if a % clients == client % accounts or a == client % accounts}
        assert share and {owners[b] for b, _ in share} <= own
    if accounts <= clients:
        assert all({owners[b] for b, _ in share} == {i % accounts} for i, share in enumerate(shares))


def test_a_mix_puts_into_the_buckets_of_all_its_accounts():
    told = {"accounts": 5, "buckets": [{"name": f"b{i}", "prefix": "", "account": i % 5} for i in range(5)]}
    assert {b.account for b in mix.places(at(2, 5), told, 0)} == {0, 2, 4}
    assert {b.account for b in mix.places(at(2, 5), told, 1)} == {1, 3}
    assert {b.account for b in mix.places(at(7, 5), told, 6)} == {1}
