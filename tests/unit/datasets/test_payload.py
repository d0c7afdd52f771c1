"""Names of many keys in a folder, and the correct listing of them."""

import itertools

from storelab.datasets import payload
from storelab.engines.common.error_classes import classify


def test_names_are_distinct_and_in_order():
    for count, depth in ((1, 0), (7, 0), (10, 0), (11, 1), (250, 2), (1000, 2), (1001, 3)):
        names = [payload.key_name(count, depth, n) for n in range(count)]
        assert names == sorted(set(names)) and {name.count("/") for name in names} == {depth}
        for n, name in enumerate(names):
            *folders, last = name.split("/")
            assert int(last) == n and last.startswith("".join(folders)) and payload.key_number(count, depth, name) == n
        first, others = names[0], ["", "x", "/", f"{count}", "-1", "+0", "\u0661", names[-1] + "0"]
        others += ["0" + first, first + "/", "a/" + first]
        assert [o for o in others if o not in names and payload.key_number(count, depth, o) is not None] == [], (
            count,
            depth,
        )
    name = payload.key_name(payload.MAX_KEYS, 5, 427)
    assert name == "0/0/0/4/2/000427" and payload.key_number(payload.MAX_KEYS, 5, name) == 427


FOLDER = [(f"p/{payload.key_name(12, 1, n)}", 100) for n in range(12)]


def checked(listed) -> str | None:
    """Return the error class of this listing of the folder, None for a right one."""
    try:
        payload.check_listing("p/", 12, 1, 100, listed)
    except payload.WrongListing as wrong:
        assert str(wrong) and classify(wrong) == (wrong.kind, 0)
        return wrong.kind
    return None


def test_wrong_listings_are_errors():
    assert checked(FOLDER) is None
    for i in range(12):
        assert checked(FOLDER[:i] + FOLDER[i + 1 :]) == "KeyMissing"
        assert checked([*FOLDER[:i], (FOLDER[i][0], 99), *FOLDER[i + 1 :]]) == "KeySize"
        assert checked([*FOLDER[:i], ("p/0/x", 100), *FOLDER[i:]]) == "KeyForeign"
        assert checked([*FOLDER[:i], ("q/0/00", 100), *FOLDER[i:]]) == "KeyForeign"
        for j in range(i, 12):
            assert checked([*FOLDER[: j + 1], FOLDER[i], *FOLDER[j + 1 :]]) == "KeyDoubled"
    assert checked([]) == "KeyMissing" and checked(FOLDER[:11]) == "KeyMissing"
    assert checked(itertools.cycle(FOLDER)) == "KeyDoubled", "an endless listing ends here"


def test_other_orders_of_keys_are_errors():
    for order in itertools.permutations(range(4)):
        listed = [FOLDER[i] for i in order] + FOLDER[4:]
        assert checked(listed) == (None if list(order) == sorted(order) else "KeyOrder")
        assert checked(listed[:3] + listed[4:]) == "KeyMissing", "missing keys count more than their order"
