"""Find the error class and the HTTP status of an error that a library or program of an engine raised or printed."""

import re
from collections.abc import Sequence
from typing import Any

from storelab.core.errors import text_of

# Messages of Rust (obstore), Go (s5cmd), OpenSSL (fsspec) and Neon (davix) for the same network failures. The first
# match is used.
TLS = (
    (
        "CertificateNotTrusted",
        ("InvalidCertificate", "certificate verif", "CERTIFICATE_VERIFY_FAILED", "failed to verify certificate"),
    ),
    ("TlsFailed", ("AlertReceived", "PeerIncompatible", "tls: ", "SSL handshake", "[SSL]", "[SSL:")),
)
NETWORK = (
    *TLS,
    ("ConnectionRefused", ("ConnectionRefused", "connection refused")),
    ("ConnectionReset", ("ConnectionReset", "connection reset")),
    ("Timeout", ("TimedOut", "kind: Timeout", "timeout")),
    ("NameNotResolved", ("dns error", "no such host")),
    ("ConnectionClosed", ("IncompleteMessage", "UnexpectedEof", "IncompleteBody", "EOF")),
)
_OBSTORE_STATUS = re.compile(r"non-2xx status code: (\d{3})")
_REDIRECT = re.compile(r"(?:Http)?30[12378]|\w*Redirect")  # error class of an answer that redirects the client
_CODE = re.compile(r"<Code>(\w+)</Code>")


# error classes which mean that the endpoint did not answer
NO_ANSWER = ("ConnectionRefused", "NameNotResolved", "Timeout")
# Start of the debug output of a library (obstore).
_TLS_REASON = re.compile(r"(?:InvalidCertificate|AlertReceived|PeerIncompatible)\((?:\s*Other(?:Error)?\()*\s*(\w+)")
_TLS_REASONS = {
    "CaUsedAsEndEntity": "the server uses a CA certificate as its own certificate, which this engine refuses",
    "ExpiredContext": "the server's certificate has expired",
    "NotValidYetContext": "the server's certificate is not yet valid",
    "NotValidForNameContext": "the server's certificate is for other names",
    "UnknownIssuer": "the issuer of the server's certificate is not trusted",
    "CertificateRequired": "the server requires a certificate of the client",
    "ProtocolVersion": "the server supports only other versions of TLS",
}
_DEBUG = re.compile(r"\s*(?:Debug source:|source: \w+\s*[({]|\w+ \{ \w+:).*", re.DOTALL)


def error_message(error: BaseException) -> str:
    """Return the class and the message of an exception on one line. The text is never empty."""
    name, message = type(error).__name__, words(error)
    return (f"{name}: {message}" if message != name else f"{name}, without a message")[:300]


def words(error: BaseException) -> str:
    """Return the message of an exception without the debug output of libraries, or its class if it has no message.

    The reason of a TLS failure, which obstore has only in its debug output, comes first.
    """
    whole = text_of(error)
    text = " ".join(_DEBUG.sub("", whole).split()).strip(" :") or type(error).__name__
    if found := _TLS_REASON.search(whole):
        text = f"{_TLS_REASONS.get(found[1], found[1])}: {text}"
    return text[:300]


def network(text: str, known: Sequence[tuple[str, Sequence[str]]] = NETWORK) -> str | None:
    """Return the error class of a network failure from the text of a message; None for other errors.

    known: error class -> pattern of messages.
    """
    low = text.lower()
    return next((name for name, words in known if any(w.lower() in low for w in words)), None)


def named(kind: str, text: str) -> str:
    """Return the message of an error, extended by its cause if this is a network failure or a redirect."""
    if _REDIRECT.fullmatch(kind):
        return f"redirected ({kind}), and redirects are not followed: {text}"
    return f"{kind}: {text}" if kind in dict(NETWORK) and kind not in text else text


def classify(error: BaseException) -> tuple[str, int]:
    """Return the error class and the HTTP status of an exception; the status is 0 if it is unknown.

    The error class is the S3 error code if the answer has one, otherwise the name of the exception.
    """
    kind = type(error)
    known = kind.__module__.startswith("obstore") or kind.__name__ == "GenericError"
    if known or _OBSTORE_STATUS.search(text_of(error)):
        return obstore(error)  # obstore raises Python's FileNotFoundError for a missing object
    link: BaseException | None = error
    while link is not None:
        response: Any = getattr(link, "response", None)
        if isinstance(response, dict):  # botocore
            status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            return str(response.get("Error", {}).get("Code") or type(link).__name__), int(status)
        status = getattr(response, "status_code", None) or getattr(link, "status", None)
        if isinstance(status, int):  # requests, aiohttp, davix
            return getattr(link, "error_class", None) or type(link).__name__, status
        link = link.__cause__
    encrypted = network(text_of(error), TLS) if re.search("SSL|Certificate", kind.__name__) else None
    return encrypted or getattr(error, "kind", None) or type(error).__name__, 0


def obstore(error: BaseException) -> tuple[str, int]:
    """Return the error class and the HTTP status of an exception of obstore.

    obstore reports the status and the S3 error code only in the message.
    """
    text = text_of(error)
    if found := _OBSTORE_STATUS.search(text):
        code = _CODE.search(text)
        return (code.group(1) if code else f"Http{found.group(1)}"), int(found.group(1))
    if "NotPartial" in text:
        return "NotPartial", 0  # the server sent the whole object instead of a range
    return network(text.partition("inner:")[2] or text) or type(error).__name__, 0
