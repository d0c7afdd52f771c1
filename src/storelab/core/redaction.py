"""Hide keys and tokens in texts.

Libraries and servers repeat them in messages, and users sometimes enter them in a wrong place. Known secrets (keys of
stores, environment variables) are hidden wherever a part of them appears. In other text, everything that looks like a
key or a token is hidden.
"""

import html
import json
import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

PART = 12  # minimum number of characters of a piece of a secret that is hidden, also in a message that was cut
SHORTEST = 8  # minimum number of characters of a secret that is hidden, because shorter secrets are ordinary words
_NAMES = re.compile(r"SECRET_ACCESS_KEY\Z|SESSION_TOKEN\Z|(?:\A|_)(?:BEARER_TOKEN|TOKEN|PASSWORD|SECRET_KEY)\Z")

# Patterns of keys and tokens.
_TOKENS = (
    re.compile(r"eyJ[\w-]{10,}(?:\.[\w-]*)*"),  # JSON Web Token
    re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    re.compile(r"(?<![\w/+~])[A-Za-z0-9+/]{40}(?![\w/+=-])"),  # a secret key of S3
    re.compile(r"[A-Za-z0-9+=-]{32,}"),
)
_MIXED = tuple(map(re.compile, ("[0-9]", "[A-Z].*[A-Z].*[A-Z]", "[a-z].*[a-z].*[a-z]")))

_parts: set[str] = set()  # all pieces of PART characters of known secrets
_short: set[str] = set()  # known secrets that are shorter than PART


def conceal(*secrets: str | None) -> None:
    """Hide these values from now on, also in the encodings of URLs, JSON, HTML and XML."""
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
    """Hide the keys and tokens in these environment variables from now on."""
    conceal(*(value for name, value in environ.items() if _NAMES.search(name)))


conceal_environment()


def without_tokens(text: str) -> str:
    """Return the text without known secrets, and without everything that looks like a key or a token."""

    def hidden(found: re.Match[str]) -> str:
        word, sure = found[0], found[0].startswith(("eyJ", "AKIA", "ASIA"))
        token = sure or all(p.search(word) for p in _MIXED)
        return f"(looks like a token, {len(word)} characters)" if token else word

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
    """Return True if a text contains a known secret.

    With `unknown`, also return True if it contains anything that looks like a key or a token.
    """
    return (without_tokens(text) if unknown else _without_known(text)) != text


def redacted(data: Any) -> Any:
    """Return JSON data with `without_tokens` applied to every text."""
    if isinstance(data, str):
        return without_tokens(data) if len(data) >= SHORTEST else data
    if isinstance(data, Mapping):
        return {redacted(key): redacted(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [redacted(value) for value in data]
    return data
