"""More accounts than clients: keys, buckets and objects of a client are those of its accounts."""

import itertools
from types import SimpleNamespace

import pytest
from made_jobs import gang_job
from refusals import refusal

from storelab.core.model import Point
from storelab.engines.common.transfers import TransferClient
from storelab.engines.contract import Job
from storelab.engines.obstore.transfers import ObstorePut
from storelab.measure import jobs
from storelab.stores.protocols import s3_clients
from storelab.stores.protocols.endpoint import Bucket, Credentials, Endpoint
from storelab.workloads import mix, objects


def at(clients: int, accounts: int) -> Point:
    axes = {"clients": clients, "workers": 2, "object_size": 10, "engine": "obstore", "accounts": accounts}
    return Point("a", "put", axes, 1, "key", "s", 7, 0, {"duration_ns": 10**9, "warm_up_ns": 0, "data_seed": 1})


def keys_of(account: int) -> Credentials:
    return Credentials(f"key{account}", f"secret{account}", f"token{account}")


def environs(one: Point, accounts: int, **more) -> list[dict[str, str]]:
    job = gang_job(one, accounts=accounts, **more)
    return jobs.environs(None, one, SimpleNamespace(credentials=keys_of), job)


def test_client_gets_the_keys_of_its_accounts(monkeypatch):
    first, second = environs(at(2, 5), 5)
    assert first["AWS_ACCESS_KEY_ID"] == "key0" and second["AWS_ACCESS_KEY_ID"] == "key1"
    for environ, own in ((first, (2, 4)), (second, (3,))):
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        for account in own:
            assert s3_clients.keys(account) == keys_of(account)
    assert "STORELAB_ACCOUNT_9_ACCESS_KEY_ID" in refusal(s3_clients.keys, 9)
    every = f"{first}\n{second}"
    assert all(every.count(f"'secret{i}'") == 1 for i in range(5)), "each account's keys go to one client"


def test_clients_take_accounts_in_turn():
    assert [e["AWS_ACCESS_KEY_ID"] for e in environs(at(7, 3), 3)] == ["key0", "key1", "key2"]
    assert [e["AWS_ACCESS_KEY_ID"] for e in environs(at(3, 2), 2, roles=[gang_job()])] == ["key0", "key1", "key0"]


@pytest.fixture
def job(tmp_path) -> Job:
    """Return the job of the first of two clients with five accounts and ten buckets."""
    places = [Bucket(f"b{i}", "", i % 5) for i in range(10)]
    return Job(at(2, 5), 0, Endpoint("http://127.0.0.1:9"), places, tmp_path, None, account=0, accounts=(0, 2, 4))


def test_uploads_take_buckets_of_all_accounts_in_turn(job):
    class Puts(TransferClient):
        prepare = run = result = lambda self, *_: None

    puts = Puts(job)
    assert [puts.upload(n).place.account for n in range(6)] == [0, 2, 4, 0, 2, 4]
    assert {puts.upload(n).place.name for n in range(6)} == {"b0", "b2", "b4", "b5", "b7", "b9"}


def test_store_of_a_bucket_signs_for_its_account(job, monkeypatch):
    asked = []

    def store(endpoint, bucket, waits, account=None, **options):
        asked.append((bucket, account))
        return account

    monkeypatch.setattr(s3_clients, "store", store)
    client = ObstorePut(job)
    client.obstore = SimpleNamespace(head=lambda *_: None)
    client.open()
    assert [client.stores[i] for i in client.bucket_indices] == [None, 2, 4, None, 2, 4], "None means the first account"
    assert sorted(asked, key=str) == [(None, 2), (None, 4), (None, None)]


def test_deletions_are_shared_out_by_account():
    keys = [(i % 10, f"k{i}") for i in range(60)]
    for clients, accounts in itertools.product((1, 2, 3, 5), (1, 2, 3, 5)):
        owners = [i % accounts for i in range(10)]
        shares = objects.shared_out(keys, owners, clients, accounts)
        assert sorted(key for share in shares for key in share) == sorted(keys), "each object once"
        for client, share in enumerate(shares):
            own = {a for a in range(accounts) if a % clients == client % accounts or a == client % accounts}
            seen = {owners[b] for b, _ in share}
            assert seen and seen <= own, (clients, accounts, client)
            assert accounts > clients or seen == {client % accounts}, (clients, accounts, client)


def test_mix_puts_into_buckets_of_all_accounts():
    values = gang_job(accounts=5, buckets=[Bucket(f"b{i}", "", i % 5) for i in range(5)])
    for clients, client, accounts in ((2, 0, {0, 2, 4}), (2, 1, {1, 3}), (7, 6, {1})):
        assert {b.account for b in mix.places(at(clients, 5), values, client)} == accounts
