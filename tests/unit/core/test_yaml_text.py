"""Text in YAML that other modules could not copy or print."""

import re

import pytest

from storelab.core import yaml_text
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
