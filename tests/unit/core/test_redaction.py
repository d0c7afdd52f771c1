"""A repeated secret is hidden: whole, in pieces, and in other formats."""

import html
import json
import random
import string
from urllib.parse import quote

import pytest

from storelab.analysis.artefact import members
from storelab.core import records, redaction
from storelab.core.errors import MeasurementFailed, UserError, error_text
from storelab.core.redaction import holds_secret, redacted, without_tokens
from storelab.engines.contract import Result
from storelab.gang import client
from storelab.host import console
from storelab.stores.protocols import tokens
from storelab.stores.protocols.endpoint import Credentials

TOKEN = "FwoGZXIvYXdzEJr//////////wEaDKr+plain/word=of+a/session==" * 6
SECRET = "short-one/+"


@pytest.fixture(autouse=True)
def known(monkeypatch):
    monkeypatch.setattr(redaction, "_parts", set())
    monkeypatch.setattr(redaction, "_short", set())
    Credentials("AKIDEXAMPLE", SECRET, TOKEN)


def leaks(text):
    """Return whether 16 characters of the token in a row are in a text, in any form."""
    forms = [form(TOKEN) for form in (str, quote, lambda t: quote(t, ""), html.escape, lambda t: json.dumps(t)[1:-1])]
    return any(form[i : i + 16] in text for form in forms for i in range(len(form) - 16)) or SECRET in text


def test_secrets_are_hidden_in_every_form_and_cut():
    """The texts around them stay."""
    for form in (str, quote, lambda t: quote(t, ""), html.escape, lambda t: json.dumps(t)[1:-1].replace("/", "\\/")):
        for cut in (None, 300, 40):
            text = f"403 The token {form(TOKEN)[:cut]}"
            shown = without_tokens(f"{text} is not valid for {SECRET}, as {SECRET}: try again")
            assert not leaks(shown) and shown.startswith("403 The token (a key or token, hidden)")
            assert shown.endswith(": try again"), shown
    assert without_tokens("session of a word, plain: 0123456789abcdef") == "session of a word, plain: 0123456789abcdef"


def test_every_way_of_a_text_into_records_hides_it(capsys):
    text = f"the server says {TOKEN} to {SECRET}"
    console.report(text)
    ways = [MeasurementFailed(text), UserError("place", text, text), error_text(OSError(text)), capsys.readouterr().err]
    ways += [json.dumps(redacted({"a": [text, (text, 1)], text: None, "b": 2.5}))]
    for way in map(str, ways):
        assert "hidden" in way and not leaks(way), way
    assert holds_secret(text) and holds_secret(text, unknown=False) and not holds_secret("nothing of it")


def test_tokens_of_the_environment_and_of_files_are_known(tmp_path):
    letters = random.Random(1)
    made = ["".join(letters.choices(string.ascii_lowercase, k=30)) for _ in range(4)]
    path = tmp_path / "token"
    path.write_text(made[0])
    path.chmod(0o600)
    assert tokens.bearer("MY_FILE", {"MY_FILE": str(path)}) == made[0]
    assert tokens.bearer("MINE", {"MINE": made[1]}) == made[1]
    redaction.conceal_environment({"AWS_SESSION_TOKEN": made[2], "STORELAB_ACCOUNT_1_SECRET_ACCESS_KEY": made[3]})
    assert not any(secret in without_tokens(" ".join(made)) for secret in made)


def test_client_records_nothing_secret(tmp_path):
    """It must not be an error class either, which is a server's own word."""
    result = Result({"end_ns": [1, 2], "bytes": [0, 1], "error": [TOKEN, None]}, {}, [], {})
    assert client.write_ops(tmp_path / "ops.0.parquet", result) == (1, 1, 1)
    assert records.read_table(tmp_path / "ops.0.parquet")["error"].to_pylist() == ["(a key or token, hidden)", None]
    records.finish(tmp_path, {"checks": [{"detail": f"at it: {TOKEN}"}]})
    assert not leaks((tmp_path / "run.json").read_text())


def test_pack_refuses_texts_with_secrets(tmp_path):
    """Existing records are not changed any more: the file is named."""
    path = tmp_path / "failed.json"
    path.write_text(json.dumps({"reason": f"the token {TOKEN}"}))
    members._without_secrets({"raw/run.json": b'{"reason": "nothing"}', "a.parquet": TOKEN.encode()})
    for name, member in (("raw/failed.json", path), ("report.html", TOKEN.encode())):
        with pytest.raises(UserError, match="contains a text that looks like a key or token: nothing was packed"):
            members._without_secrets({name: member})
