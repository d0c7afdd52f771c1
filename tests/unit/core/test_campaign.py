"""Campaign files: the smallest and largest values of each key."""

import pytest
from pydantic import ValidationError

from storelab.core import campaign
from storelab.core.campaign import Limits, Sweep
from storelab.core.campaign.release import Release, Tree

GET = {"workload": "get", "axes": {}}
WHOLE = {"sweeps": {"one": {"workload": "get"}}, "name": "x", "stores_to_measure": ["a"]}
S = 10**9

BOUNDS = [  # model, the keys that it needs besides, key, values that are taken, values that are refused
    *((Limits, {}, n, [1], [0]) for n in ("objects", "buckets", "clients", "connections", "requests_per_s")),
    (Limits, {}, "error_fraction", [0, 1], [-0.01, 1.01]),
    (campaign.Launcher, {}, "nodes", [1], [0]),
    (campaign.Launcher, {}, "port", [0, 65535], [-1, 65536]),
    (Sweep, GET, "objects", [1], [0]),
    (Sweep, GET, "repetitions", [1], [0]),
    (Sweep, GET, "parts", [1, 1000], [0, 1001]),
    (Sweep, GET, "stores", [["a"]], [[]]),
    (campaign.RootFile, {}, "path", ["x"], [""]),
    (Release, {}, "days", [1, 100_000], [0, 100_001]),
    (Release, {}, "files_a_day", [1, 10**8], [0, 10**8 + 1]),
    (Tree, {"path": "x"}, "versions", [["1"]], [[]]),
    (campaign.Campaign, WHOLE, "repetitions", [1], [0]),
    (campaign.Campaign, WHOLE, "seed", [0], [-1]),
    (campaign.Campaign, WHOLE, "scale", [0.001], [0]),
    (campaign.Campaign, WHOLE, "failure_budget", [0, 1], [-0.01, 1.01]),
    (campaign.Campaign, WHOLE, "stores_to_measure", [["a"]], [[]]),
    (campaign.Campaign, WHOLE, "sweeps", [WHOLE["sweeps"]], [{}]),
    (campaign.Campaign, WHOLE, "files", [{"mine": {"path": "x"}}], [{"M": {"path": "x"}}]),
]


def test_least_and_greatest_values():
    for model, needed, key, taken, refused in BOUNDS:
        for value in taken:
            assert getattr(model.model_validate(needed | {key: value}), key) is not None
        for value in refused:
            with pytest.raises(ValidationError, match=key):
                model.model_validate(needed | {key: value})


def test_url_of_a_file_holds_no_secret():
    for path in ("https://x.org/a.root?download=1", "root://eos.cern.ch//a/b.root", "a:b@c?token", "s3://bucket/a#1"):
        assert campaign.RootFile(path=path).path == path
    for path in (
        "https://user:word@x.org/a.root",
        "https://x.org/a.root?X-Amz-Signature=abc",
        "https://x.org/a.root?a=1&access_token=abc",
        "root://x.org//a.root?authz=abc",
        "simplecache::https://user:word@x.org/a.root",
    ):
        with pytest.raises(ValidationError, match="contains a password or token"):
            campaign.RootFile(path=path)
