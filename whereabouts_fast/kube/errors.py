"""What can go wrong with a request to the API server: one tree, and nothing of aiohttp in it.

Two branches only. `ApiError` is what a request ended with, `ConfigurationError` is what stood in
the way of making any request at all.
"""
# ruff: noqa: N818 -- the names are the API server's own reasons

import json
from collections.abc import Mapping
from typing import Any

_MESSAGE_LIMIT = 300


class ConfigurationError(Exception):
    """Credentials or the server's address cannot be loaded; says from where and what to do."""


class ApiError(Exception):
    """A request failed: HTTP status (0: no answer came), reason and message of the API server.

    `retry_after` is in seconds when the server asked to wait, else None.
    """

    def __init__(
        self, status: int, reason: str, message: str, *, retry_after: float | None = None
    ) -> None:
        super().__init__(status, reason, message)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.reason} ({self.status}): {self.message}" if self.status else self.message


class NotFound(ApiError):
    """404: no such object, or no such kind.

    `reason` is "NotFound" where the API server says so itself.
    """


class Conflict(ApiError):
    """409: the object is not at the version or uid that the request assumed."""


class AlreadyExists(Conflict):
    """409 to a create: the name is taken."""


class Invalid(ApiError):
    """422: validation refused the object, or a `test` of a JSON Patch failed."""


class Gone(ApiError):
    """410: the resource version or the continue token has expired; list again."""


class TooManyRequests(ApiError):
    """429: the server is overloaded; `retry_after` seconds is its advice."""


class Unauthorized(ApiError):
    """401, also after the credentials were loaded again."""


class Forbidden(ApiError):
    """403: these credentials may not do `verb` on `resource`."""

    def __init__(self, status: int, reason: str, message: str, *, verb: str, resource: str) -> None:
        super().__init__(status, reason, message)
        self.verb = verb
        self.resource = resource


class Unreachable(ApiError):
    """No answer, or only a part of one: whether a write was done is unknown."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(0, reason, message)


class Silent(Unreachable):
    """An open watch brought no byte for longer than the server's bookmarks are apart."""


class ServerError(ApiError):
    """5xx, or an answer that is not what the API server sends."""


_BY_STATUS: dict[int, type[ApiError]] = {
    401: Unauthorized,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


def from_status(
    code: int,
    status: Mapping[str, Any],
    *,
    verb: str,
    resource: str,
    retry_after: float | None = None,
) -> ApiError:
    """The error for a `Status` object (or `{}`), as an answer or as an ERROR event of a watch."""
    reason = str(status.get("reason") or "")
    message = str(status.get("message") or f"{verb} {resource} failed without a message")
    if code == 403:
        return Forbidden(code, reason or "Forbidden", message, verb=verb, resource=resource)
    kind = _BY_STATUS.get(code, ServerError if code >= 500 else ApiError)
    if kind is Conflict and reason == "AlreadyExists":
        kind = AlreadyExists
    if reason in {"Expired", "Gone"}:
        kind = Gone
    if retry_after is None:
        details = status.get("details")
        advice = details.get("retryAfterSeconds") if isinstance(details, Mapping) else None
        retry_after = float(advice) if isinstance(advice, int) and advice > 0 else None
    return kind(code, reason or kind.__name__, message, retry_after=retry_after)


def from_answer(
    code: int, body: bytes, *, verb: str, resource: str, retry_after: str | None = None
) -> ApiError:
    """The error for an HTTP answer; a body that is no `Status` (a proxy's page) is quoted."""
    try:
        status = json.loads(body)
    except ValueError:
        status = None
    if not isinstance(status, dict):
        text = body[:_MESSAGE_LIMIT].decode("utf-8", "replace").strip()
        message = f"{verb} {resource}: answer is not from the API server: {text}"
        status = {"reason": "Malformed", "message": message}
    # Retry-After may also be a date; the API server only sends whole seconds.
    seconds = float(retry_after) if retry_after and retry_after.isdigit() else None
    return from_status(code, status, verb=verb, resource=resource, retry_after=seconds)
