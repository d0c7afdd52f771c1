"""Text in YAML that other modules could not copy or print."""

import re

import pytest
from refusals import refusal

from storelab.core import config, yaml_text
from storelab.core.errors import UserError


def doubled(levels: int) -> str:
    """Return a list in which each item is a list of nine aliases of the item before it."""
    return "&x0 [a, b]" + "".join(f", &x{i} [{', '.join([f'*x{i - 1}'] * 9)}]" for i in range(1, levels))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("title: &a [*a]", "an alias refers to a value that contains it"),
        ("stores: &a\n  x: {y: *a}", "an alias refers to a value that contains it"),
        ("a: &a {<<: *a}", "an alias refers to a value that contains it"),
        (f"title: [{doubled(9)}]", "aliases expand to more than 10 MB"),
        (f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 200)}]", "aliases expand to more than 10 MB"),
    ],
)
def test_aliases_that_expand_too_far_are_refused(text, problem):
    with pytest.raises(UserError, match=rf"^y\.yaml, line \d: {re.escape(problem)}; "):
        yaml_text.parse(text, "y.yaml")


def test_ordinary_aliases_are_replaced():
    assert yaml_text.parse("a: &a {k: [1, 2]}\nb: [*a, *a]\nc: {<<: *a, d: 3}", "") == {
        "a": {"k": [1, 2]},
        "b": [{"k": [1, 2]}, {"k": [1, 2]}],
        "c": {"k": [1, 2], "d": 3},
    }
    assert yaml_text.parse("", "") is None


def test_large_file_is_refused(tmp_path):
    path = tmp_path / "y.yaml"
    with path.open("wb") as f:
        f.truncate(yaml_text.MAX_BYTES + 1)
    with pytest.raises(UserError, match="is larger than 10 MB"):
        yaml_text.read(path)


def test_keys_have_lines(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("a: 1\nlimits:\n  b: &b {c: 2}\n  # remark\n  d: [1]\n")
    assert [yaml_text.line_of(path, keys) for keys in (["a"], ["limits", "b", "c"], ["limits", "d"])] == [1, 3, 5]
    assert yaml_text.line_of(path, ["limits", "none"]) is None and yaml_text.line_of(path, ["limits", "d", "0"]) is None
    assert yaml_text.line_of(tmp_path / "command line", ["a"]) is None
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "campaigns" / "c.yaml").write_text("name: c\n\nsweeps:\n  s:\n    workload: put\n    axis: {}\n")
    (tmp_path / "config.yaml").write_text("campaign: c\nstores: {a: {kind: seaweedfs}}\n")
    assert "unknown key 'axis' in line 6" in refusal(config.load, tmp_path / "config.yaml")
