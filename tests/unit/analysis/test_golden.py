"""The golden set: tables, figures, TeX, plans and help are what they were when it was made (tests/data/README.md, tests/support/golden.py)."""

import itertools
import json
import math

import golden
import pytest

ALL = [pytest.param(name, marks=pytest.mark.heavy) if name in golden.LONG else name for name in golden.campaigns()]


@pytest.fixture(scope="module", params=ALL)
def campaign(request, tmp_path_factory):
    """(name, what its records give now, what they gave): built once for all tests of a campaign."""
    name = request.param
    now = golden.rebuild(name, tmp_path_factory.mktemp(name) / name)
    return name, {path: golden.to_text(content) for path, content in now.items()}, golden.expected_of(name)


def same(now: dict[str, str], then: dict[str, str], folder: str) -> None:
    """Of a kind of file: the same names, then the same text, the first difference in sight."""
    now, then = ({k: v for k, v in every.items() if k.startswith(folder)} for every in (now, then))
    assert then and sorted(now) == sorted(then)
    for name in then:
        assert rounded(now[name], then[name]) == then[name].splitlines(), name


def rounded(text: str, as_in: str) -> list[str]:
    """Lines of `text`; a number that agrees to seven digits with that of `as_in` as it stands there: the last digits of a fit depend
    on the processor."""
    out = []
    for line, known in itertools.zip_longest(text.splitlines(), as_in.splitlines()):
        mine, theirs = ((words or "").split(",") for words in (line, known))
        if len(mine) == len(theirs):
            mine = [b if near(a, b) else a for a, b in zip(mine, theirs, strict=True)]
        out.append(",".join(mine))
    return out[: len(text.splitlines())]


def near(a: str, b: str) -> bool:
    try:
        return math.isclose(float(a), float(b), rel_tol=1e-7)
    except ValueError:
        return False


def test_a_number_that_differs_in_its_last_digits_only_is_the_same():
    assert rounded("a,-2.43889643e-06,x\nb,1,", "a,-2.43889644e-06,x\nb,1,") == ["a,-2.43889644e-06,x", "b,1,"]
    assert rounded("a,1.0001\nmore", "a,1.0000") == ["a,1.0001", "more"]
    assert rounded("a,2", "a,1.9999\nb,1") == ["a,2"]


def test_tables_are_identical(campaign):
    _, now, then = campaign
    same(now, then, "tables/")


def test_tex_is_identical(campaign):
    _, now, then = campaign
    same(now, then, "tex/")


def test_figures_show_the_same_data(campaign):
    _, now, then = campaign
    now, then = json.loads(now["figures.json"]), json.loads(then["figures.json"])
    assert list(now) == list(then)
    for name in then:
        assert now[name]["words"] == then[name]["words"] and now[name]["legends"] == then[name]["legends"], name
        assert [p["title"] for p in now[name]["panels"]] == [p["title"] for p in then[name]["panels"]], name
        for mine, known in zip(now[name]["panels"], then[name]["panels"], strict=True):
            assert mine == known, f"{name}: {known['title']}"


def test_captions_and_what_is_said_are_identical(campaign):
    _, now, then = campaign
    for name in ("captions.json", "verify.txt", "verdict.txt", "capabilities.md"):
        assert now.get(name) == then.get(name), name


def test_every_campaign_file_plans_the_same_points_in_the_same_order():
    now, then = golden.plans(), json.loads((golden.GOLDEN / "plans.json").read_text())
    assert list(now) == list(then)
    for name in then:
        assert now[name] == then[name], name


def test_every_command_has_the_same_help():
    now, then = golden.cli(), json.loads((golden.GOLDEN / "cli.json").read_text())
    assert list(now) == list(then)
    for name in then:
        assert now[name].splitlines() == then[name].splitlines(), name


def test_requests_of_an_operation_are_those_of_the_records():
    assert golden.requests() == json.loads((golden.GOLDEN / "requests.json").read_text())
