"""Lines that s5cmd prints: operations, errors and their classes."""

import json

import pytest

from storelab.core.errors import MeasurementFailed
from storelab.engines.s5cmd import output


def test_lines_have_the_arrival_of_their_end():
    assert output.lines([(1, b"ab"), (2, b"c\nd"), (5, b"e\n\n  \nf\ng")]) == [(2, "abc"), (5, "de"), (5, "f")]


def test_errors_have_classes():
    for message, name in (
        ("SlowDown: reduce your rate status code: 503", "SlowDown"),
        ("NoSuchKey, it is gone", "NoSuchKey"),
        ("dial tcp: connection refused", "ConnectionRefused"),
        ("something else", "Other"),
    ):
        assert output.classify(message) == name


def printed(*keys, side="source", size=10):
    other = {"source": "destination", "destination": "source"}[side]
    rows = [{"operation": "cp", side: f"s3://bucket/{k}", other: "/x", "object": {"size": size}} for k in keys]
    return [json.dumps(row) for row in rows]


def test_operations_and_errors_become_rows():
    errors = ["SlowDown: no status code: 503, request", "SlowDown: again", "x context canceled", "y RequestCanceled z"]
    for op, side in (("GET", "source"), ("PUT", "destination")):
        out = [(10 * i, f"{line}\n".encode()) for i, line in enumerate(printed("a/1", "b", side=side), 1)]
        stat = [(30, b'{"operation": "cp", "success": 2, "error": 2}\n')]
        lines = [(40 + i, (json.dumps({"error": e}) if i else e).encode() + b"\n") for i, e in enumerate(errors)]
        found = output.parse(3, op, 10, out + stat, lines)
        assert found.summary == {"operation": "cp", "success": 2, "error": 2}
        assert found.messages == {"SlowDown": {"count": 2, "message": errors[0]}}
        expected = {"client": [3] * 4, "op": [op] * 4, "object": ["a/1", "b", None, None], "count": [1] * 4}
        expected |= {"bytes": [10, 10, 0, 0], "end_ns": [10, 20, 40, 41], "status": [0, 0, 503, 0]}
        assert found.ops == expected | {"error": [None, None, "SlowDown", "SlowDown"]}


def test_silence_is_longer_than_operations_take():
    second = 10**9
    for ends, deadline, silent in (
        ((), 60, 0),
        ((1, 2, 3), 10, 7),
        ((1, 2, 3), 8, 0),
        ((0.1, 0.2), 1.1, 0),
        ((0.1, 0.2), 1.5, 1.3),
        ((20,), 60, 0),
        ((0.1, 5, 5.1), 20, 0),
        ((5.1, 0.1, 5), 40, 34.9),
    ):
        found = output.silence_ns([int(end * second) for end in ends], 0, int(deadline * second))
        assert found == int(silent * second), (ends, deadline)


def test_empty_objects_have_size_zero():
    """s5cmd leaves `size` out of an empty object."""
    line = {"operation": "cp", "source": "s3://bucket/k", "destination": "/x", "object": {"type": "file"}}
    found = output.parse(0, "GET", 0, [(1, json.dumps(line).encode() + b"\n")], [])
    assert found.ops["bytes"] == [0] and found.ops["error"] == [None]


def test_unexpected_output_fails_the_point():
    with pytest.raises(MeasurementFailed, match="'hello'"):
        output.parse(0, "GET", 10, [(1, b"hello\n")], [])
    lines = [(1, f"{line}\n".encode()) for line in [*printed("a"), *printed("b", "c", size=9)]]
    with pytest.raises(MeasurementFailed, match=r"2 objects .* 9 B instead of 10 B"):
        output.parse(0, "GET", 10, lines, [])


def test_warnings_of_the_program_are_no_results():
    """With few open files s5cmd begins with a line that is not JSON, also under `--json`."""
    warning = b"WARNING: Current open files limit 128 is too low, consider increasing\n"
    lines = [(1, warning), *((2, f"{line}\n".encode()) for line in printed("a"))]
    assert output.parse(0, "GET", 10, lines, []).ops["object"] == ["a"]
