"""Contract of all engines of S3: each works with servers that have a quirk, or fails with a reason that names it."""

import pytest
import quirky_s3

pytestmark = [pytest.mark.real, pytest.mark.heavy]
REFUSED = ("redirected", "busy")  # by every engine: no point of such a server is valid


def test_every_engine_works_or_names_the_quirk():
    found = quirky_s3.everything(*quirky_s3.QUIRKS)
    assert {engine for engine, _ in found} >= {"s5cmd", "fsspec", "obstore", "loadgen", "uproot-s3fs", "planned"}
    assert quirky_s3.disagreeing(found) == []
    for pair, reasons in found.items():
        assert all(reasons[quirk] for quirk in REFUSED), pair
        if "range" in pair[1]:
            assert pair[0] == "davix" or (reasons["range ignored"] and reasons["wrong Content-Range"]), pair
