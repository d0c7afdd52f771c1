"""Errors: operating system errors name the path, and nothing secret or harmful is printed."""

import errno

from storelab.core.errors import MeasurementFailed, UserError, error_text, system_error, text_of

JWT = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
SECRETS = (
    JWT,
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "AKIAIOSFODNN7EXAMPLE",
    "MDAxY2xvY2F0aW9uIE9wdGlvbmFsLmVtcHR5CjAwMThpZGVu",
)
HARMLESS = (
    "nullserver/calibrate/operation~put_engine~obstore_object_size~10GB_workers~0002_part_size~256MiB_rep~001",
    "/data/Run2023B/NanoAODv12/SingleMuon/file-0001.root",
    "https://front-end-1.example.org:9000",
    "a3f5" * 16,
    "an_ordinary_name_of_a_sweep_that_is_long",
)


def test_refusals_of_the_system_name_path_and_hint():
    for error, begin, hint in (
        (OSError(28, "No space", "results/x"), "results/x: no space left on device", "free space"),
        (OSError(30, "", "a"), "a: read-only file system", "use a folder"),
        (
            OSError("Error writing. Detail: [errno 28] No space left"),
            "a file, or the output: no space left on device",
            "free space",
        ),
        (OSError(errno.ENOLCK, "x"), "a lock of a file: no locks available", "on a file system with flock"),
        (OSError(errno.EOPNOTSUPP, "x", "f"), "f: operation not supported", "check this path"),
        (ConnectionRefusedError(111, "refused"), "network: ", ""),
    ):
        message = str(system_error(error))
        assert message.startswith(begin) and hint in message


def test_tokens_are_hidden_and_names_are_not():
    for secret in SECRETS:
        for text in (secret, f"'{secret}' is wrong", f"https://me:{secret}@a", f"stores.far.{secret}"):
            message = str(UserError("here", text))
            assert secret not in message and max((len(w) for w in message.split() if w in secret), default=0) < 8
    for plain in HARMLESS:
        assert str(UserError("here", plain)) == f"here: {plain}"


def test_control_characters_are_replaced():
    assert str(UserError("a\x1b[2J", "b\nc\x00", "d\x07")) == "a?[2J: b c?; d?"


class Unprintable(Exception):
    """An exception like uproot's DeserializationError, whose `__str__` raises."""

    def __str__(self):
        raise AttributeError("no attribute 'file_path'")


def test_exceptions_without_text_are_printed():
    """If `__str__` raises, or there is no message, the line that raised the exception is the reason."""
    for kind in (Unprintable, AssertionError):
        try:
            raise kind
        except kind as error:
            assert error_text(error).startswith(f"{kind.__name__} without a message, raised by test_")
            assert error_text(error).endswith("in test_errors.py: raise kind") and text_of(error) == ""
        assert error_text(kind()) == kind.__name__
    assert error_text(ValueError("a\n b")) == "ValueError: a b"


def test_messages_of_servers_stay_on_one_line():
    for kind in (lambda text: UserError("here", text), MeasurementFailed):
        message = str(kind("a store said:\n\tline 2\r\nstorelab: all is well\x1b[2J\x00"))
        assert message.isprintable() and "line 2 storelab: all is well" in message
