"""Series of points that are measured in parts."""

from storelab.analysis.records import selection


def test_each_part_knows_how_long_its_series_lasts():
    def point(key, lasts):
        return {"key": key, "fixed": {"duration_ns": lasts}, "duration_ns": {"duration_ns": -1}}

    soak, other = ([f"a/put/clients~{c:04d}_part~{n:04d}_rep~001" for n in (2, 1, 3)] for c in (1, 2))
    found = [*zip(soak, (5, 10, 20), strict=True), *zip(other, (1, 1, 1), strict=True), ("a/put/rep~001", 1000)]
    plan = {"points": [point(*p) for p in found]}
    assert selection.lengths_ns(plan) == dict.fromkeys(soak, 35) | dict.fromkeys(other, 3)
    assert [*selection.parts_of(soak).values()] == [[soak[1], soak[0], soak[2]]] and selection.parts_of(
        ["a/put/rep~001"]
    ) == {}
