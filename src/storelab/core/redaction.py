"""Keys and tokens in texts: libraries and servers repeat them, and users paste them at the wrong place.

What this process knows (keys of stores, variables of the environment) is hidden wherever a part of it is repeated; of
other text, what looks like a key or a token. Standard library only.
"""

import html
import json
import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

PART = 12  # characters of a secret: a longer piece of it is hidden too, as of a message that was cut
SHORTEST = 8  # of a secret: shorter ones are words
_NAMES = re.compile(r"SECRET_ACCESS_KEY\Z|SESSION_TOKEN\Z|(?:\A|_)(?:BEARER_TOKEN|TOKEN|PASSWORD|SECRET_KEY)\Z")

# What looks like a key or a token.
_TOKENS = (
    re.compile(r"eyJ[\w-]{10,}(?:\.[\w-]*)*"),  # JSON Web Token
    re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    re.compile(r"(?<![\w/+~])[A-Za-z0-9+/]{40}(?![\w/+=-])"),  # a secret key of S3
    re.compile(r"[A-Za-z0-9+=-]{32,}"),
)
_MIXED = tuple(map(re.compile, ("[0-9]", "[A-Z].*[A-Z].*[A-Z]", "[a-z].*[a-z].*[a-z]")))

_parts: set[str] = set()  # all pieces of PART characters
_short: set[str] = set()  # whole secrets that have no piece


def conceal(*secrets: str | None) -> None:
    """Hide these values from now on, as they are and as URLs, JSON, HTML and XML write them."""
    for secret in secrets:
        if not secret or len(secret) < SHORTEST:
            continue
        forms = {secret, quote(secret, ""), quote(secret), json.dumps(secret)[1:-1], html.escape(secret)}
        forms |= {form.replace("/", "\\/") for form in forms}
        for form in forms:
            if len(form) < PART:
                _short.add(form)
            _parts.update(form[i : i + PART] for i in range(len(form) - PART + 1))


def conceal_environment(environ: Mapping[str, str] = os.environ) -> None:
    """Hide the keys and tokens among these variables from now on."""
    conceal(*(value for name, value in environ.items() if _NAMES.search(name)))


conceal_environment()


def without_tokens(text: str) -> str:
    """Return the text without known secrets, and without what looks like a key or a token."""

    def hidden(found: re.Match[str]) -> str:
        word, sure = found[0], found[0].startswith(("eyJ", "AKIA", "ASIA"))
        return f"(what looks like a token, {len(word)} signs)" if sure or all(p.search(word) for p in _MIXED) else word

    text = _without_known(text)
    for pattern in _TOKENS:
        text = pattern.sub(hidden, text)
    return text


def _without_known(text: str) -> str:
    for secret in _short:
        text = text.replace(secret, "(a key, hidden)")
    if not _parts:
        return text
    out, at, end = [], 0, len(text) - PART + 1
    begin = 0
    while at < end:
        if text[at : at + PART] not in _parts:
            at += 1
            continue
        out.append(text[begin:at])
        while at < end and text[at : at + PART] in _parts:
            at += 1
        begin = at = at + PART - 1
        out.append("(a key or token, hidden)")
    return "".join([*out, text[begin:]])


def holds_secret(text: str, unknown: bool = True) -> bool:
    """Return whether a text repeats a known secret, or (unknown) has what looks like a key or a token."""
    return (without_tokens(text) if unknown else _without_known(text)) != text


def redacted(data: Any) -> Any:
    """Return the data, as JSON has them, with `without_tokens` of every text in them."""
    if isinstance(data, str):
        return without_tokens(data) if len(data) >= SHORTEST else data
    if isinstance(data, Mapping):
        return {redacted(key): redacted(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [redacted(value) for value in data]
    return data
