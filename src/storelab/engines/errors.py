"""Error classes and HTTP statuses of what the Python libraries throw (level 2, measuring side)."""

from typing import Any


class WrongAnswer(Exception):
    """The server answered, but not with what was asked for: never counted as moved."""


def classify(error: BaseException) -> tuple[str, int]:
    """(error class, HTTP status or 0): the S3 error code where an answer bears one, else the name of the exception."""
    link: BaseException | None = error
    while link is not None:
        response: Any = getattr(link, "response", None)
        if isinstance(response, dict):  # botocore
            status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            return str(response.get("Error", {}).get("Code") or type(link).__name__), int(status)
        if isinstance(status := getattr(response, "status_code", None) or getattr(link, "status", None), int):  # requests, aiohttp
            return type(link).__name__, status
        link = link.__cause__
    return getattr(error, "kind", None) or type(error).__name__, 0
