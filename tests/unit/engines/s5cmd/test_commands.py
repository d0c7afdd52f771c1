"""Names are data: each name reaches s5cmd as it is, whatever letters are in it."""

import os
import shlex
import subprocess
from urllib.parse import unquote

import pytest
from bucket_server import bucket
from hypothesis import example, given, settings
from hypothesis import strategies as st

from storelab.core.errors import UserError
from storelab.engines.s5cmd import client, commands
from storelab.stores.protocols import environment
from storelab.stores.protocols.endpoint import Credentials, Endpoint

HARD = (
    "my file.root",
    "it's.root",
    "x?y.root",
    "x*y",
    "[ab]",
    'a"b',
    "a\\b",
    "#x",
    "$HOME",
    "`id`",
    "a;b&c|d",
    "~",
    " x ",
)
HARD += (
    "-r",
    "--raw",
    "ü",
    "日本",
    "a\tb",
    "a\rb",
    "%41",
    "a+b",
    "a=b",
    "{x,y}",
    "!",
    "\x01",
    "<>",
    "^",
    "a..b",
    "\u2028",
)
KEYS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\0"), min_size=1, max_size=100)
PATHS = st.binary(min_size=1, max_size=100).map(lambda b: os.fsdecode(b.replace(b"\0", b"x").replace(b"/", b"y")))


def sayable(name: str) -> bool:
    return "\n" not in name and "://" not in name and not name.endswith("/")


@settings(max_examples=60, deadline=None, database=None, derandomize=True)
@given(KEYS.filter(sayable), PATHS.filter(sayable))
@example("my file.root", "/a b/it's")
def test_line_splits_into_names(key, path):
    """A POSIX shell splits the line as s5cmd does."""
    line = commands.encoded(commands.copy(f"/f/{path}", commands.url("b", key), "--part-size 5 "))
    words = shlex.split(os.fsdecode(line.removesuffix(b"\n")))
    assert words == ["cp", "--raw", "--part-size", "5", f"/f/{path}", f"s3://b/{key}"]
    assert line.count(b"\n") == 1


def test_names_that_s5cmd_cannot_write_are_refused():
    for name in ("a\nb", "a\nrm s3://b/*", "s3://b/a://b", "a/"):
        for sides in ((name, "s3://b/k"), ("s3://b/k", name)):
            with pytest.raises(UserError, match="s5cmd: the name"):
                commands.copy(*sides)


def test_program_moves_names_as_they_are(tmp_path):
    """Uploads, copies in the store and downloads; the folder has a name of this kind too."""
    folder = tmp_path / "a folder ü?'\""
    folder.mkdir()
    not_text = os.fsdecode(b"\xff\xfe")
    for name in (*HARD, not_text):
        (folder / name).write_text(name, errors="surrogateescape")
    with bucket() as server:
        endpoint = Endpoint(server.url)

        def run(*lines: str) -> None:
            done = subprocess.run(
                client.command(endpoint, 4),
                input=commands.encoded("".join(lines)),
                env=environment.client(os.environ, endpoint, Credentials("k", "s")),
                capture_output=True,
                timeout=60,
            )
            assert not done.returncode, done.stderr.decode()

        up = [commands.copy(folder / name, commands.url("b", name)) for name in HARD]
        run(*up, commands.copy(folder / not_text, commands.url("b", "not text")))
        stored = {unquote(key): body for key, body in server.objects.items()}
        assert stored == {name: name.encode() for name in HARD} | {"not text": b"\xff\xfe"}
        for name in HARD:
            (folder / name).unlink()
        run(*(commands.copy(commands.url("b", name), folder / name) for name in HARD))
        assert {p.name: p.read_bytes() for p in folder.iterdir() if p.name != not_text} == {
            name: name.encode() for name in HARD
        }
        run(*(commands.copy(commands.url("b", name), commands.url("b", f"copy {name}")) for name in HARD))
        stored = {unquote(key): body for key, body in server.objects.items()}
        assert {f"copy {name}": name.encode() for name in HARD}.items() <= stored.items()
