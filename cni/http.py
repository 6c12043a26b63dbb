"""HTTP/1.1 as far as an API server speaks it: one request out, one answer in.

No socket is known here: `read_answer` takes a function that returns the next bytes, b"" at the
end. Source of the rules: RFC 9112.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_HEAD_LIMIT = 64 << 10
_BODY_LIMIT = 32 << 20
_INTERIM_LIMIT = 16


class HttpError(Exception):
    """An answer that is cut short, too large or not HTTP; the message completes "the answer"."""


class Answer:
    """A final answer: status, headers by lower-case name, whole body, and if the server closes."""

    __slots__ = ("body", "closing", "headers", "status")

    def __init__(self, status: int, headers: dict[str, str], body: bytes, *, closing: bool) -> None:
        self.status = status
        self.headers = headers
        self.body = body
        self.closing = closing


def encode(method: str, target: str, headers: dict[str, str], body: bytes = b"") -> bytes:
    """Return a request as the bytes of one write.

    Header values come from files: one with a line break would be a second header, ValueError.
    """
    lines = [f"{method} {target} HTTP/1.1"]
    for name, value in headers.items():
        if not value.isprintable():
            raise ValueError(f"header {name} has a control character")
        lines.append(f"{name}: {value}")
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body


class _Source:
    """The bytes that have come and those still to come."""

    __slots__ = ("data", "more")

    def __init__(self, more: Callable[[], bytes]) -> None:
        self.data = b""
        self.more = more

    def fill(self) -> None:
        chunk = self.more()
        if not chunk:
            raise HttpError("was cut off")
        self.data += chunk

    def until(self, end: bytes, limit: int) -> bytes:
        while True:
            at = self.data.find(end)
            if at >= 0:
                found, self.data = self.data[:at], self.data[at + len(end) :]
                return found
            if len(self.data) > limit:
                raise HttpError("has endless headers")
            self.fill()

    def exactly(self, size: int) -> bytes:
        if size > _BODY_LIMIT:
            raise HttpError(f"is larger than {_BODY_LIMIT} bytes")
        parts = [self.data]
        have = len(self.data)
        while have < size:
            chunk = self.more()
            if not chunk:
                raise HttpError("was cut off")
            parts.append(chunk)
            have += len(chunk)
        whole = b"".join(parts)
        self.data = whole[size:]
        return whole[:size]


def read_answer(more: Callable[[], bytes]) -> Answer:
    """Read one final answer, skipping interim ones; raises HttpError and what `more` raises."""
    source = _Source(more)
    for _ in range(_INTERIM_LIMIT):
        status, http10, headers = _read_head(source.until(b"\r\n\r\n", _HEAD_LIMIT))
        if status >= 200:
            break
    else:
        raise HttpError("never became final")
    connection = headers.get("connection", "").lower()
    closing = "close" in connection or (http10 and "keep-alive" not in connection)
    if status in (204, 304):
        return Answer(status, headers, b"", closing=closing)
    coding = headers.get("transfer-encoding", "").lower()
    length = headers.get("content-length")
    if coding == "chunked":
        body = _read_chunks(source)
    elif coding:
        raise HttpError(f"has the unknown transfer coding {coding}")
    elif length is not None:
        if not (length.isascii() and length.isdigit() and len(length) < 12):
            raise HttpError(f"has the content length {length}")
        body = source.exactly(int(length))
    else:
        # Nothing tells such a body's end from a cut connection, so it cannot be trusted.
        raise HttpError("has no length")
    return Answer(status, headers, body, closing=closing or bool(source.data))


def _read_head(raw: bytes) -> tuple[int, bool, dict[str, str]]:
    first, *rest = raw.decode("latin-1").split("\r\n")
    protocol, _, after = first.partition(" ")
    code = after[:3]
    if protocol not in ("HTTP/1.1", "HTTP/1.0") or not (code.isascii() and code.isdigit()):
        raise HttpError("is not HTTP/1.1")
    headers = {}
    for line in rest:
        name, colon, value = line.partition(":")
        if not colon:
            raise HttpError("has a header line without a colon")
        headers[name.strip().lower()] = value.strip()
    return int(code), protocol == "HTTP/1.0", headers


def _read_chunks(source: _Source) -> bytes:
    parts, total = [], 0
    while True:
        text = source.until(b"\r\n", 256).partition(b";")[0].strip()
        try:
            size = int(text, 16)
        except ValueError:
            size = -1
        if size < 0 or len(text) > 8:
            raise HttpError("has a broken chunk")
        if size == 0:
            break
        total += size
        if total > _BODY_LIMIT:
            raise HttpError(f"is larger than {_BODY_LIMIT} bytes")
        parts.append(source.exactly(size))
        if source.exactly(2) != b"\r\n":
            raise HttpError("has a broken chunk")
    trailers = 0
    while source.until(b"\r\n", _HEAD_LIMIT):
        trailers += 1
        if trailers > 64:
            raise HttpError("has endless headers")
    return b"".join(parts)
