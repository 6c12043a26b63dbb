"""What the proxy may do with one request instead of just passing it on."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.faults.wire import Reply


@dataclass(frozen=True)
class Request:
    """A request as the proxy received it; header names in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes = field(repr=False)

    @property
    def path(self) -> str:
        """The target without its query."""
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        """The query parameters, the first value of each."""
        return {key: values[0] for key, values in parse_qs(urlsplit(self.target).query).items()}

    @property
    def is_write(self) -> bool:
        """Whether it may change an object."""
        return self.method not in ("GET", "HEAD", "OPTIONS")

    @property
    def is_watch(self) -> bool:
        """Whether its reply is a stream of events."""
        return self.query.get("watch") in ("1", "true")

    @property
    def agent(self) -> str:
        """The product of the user agent, without its version."""
        return self.headers.get("user-agent", "").partition("/")[0]


@dataclass(frozen=True)
class Forward:
    """Pass the request on and its reply back, byte by byte; the default."""


@dataclass(frozen=True)
class CutBeforeSending:
    """End the client's connection; the server never sees the request."""


@dataclass(frozen=True)
class CutReply:
    """Pass the request on, wait for the server's whole reply, end the client's connection.

    after_bytes: so many bytes of the reply reach the client first.
    """

    after_bytes: int = 0


@dataclass(frozen=True)
class Answer:
    """Answer in the server's place. body: a JSON value, text, or bytes as they are."""

    status: int
    body: Any = b""
    headers: dict[str, str] = field(default_factory=dict)

    def encoded(self) -> tuple[dict[str, str], bytes]:
        """Return all headers and the body's bytes."""
        if isinstance(self.body, bytes):
            return {"Content-Type": "text/plain", **self.headers}, self.body
        if isinstance(self.body, str):
            return {"Content-Type": "text/html", **self.headers}, self.body.encode()
        return {"Content-Type": "application/json", **self.headers}, json.dumps(self.body).encode()


def refusal(status: int, reason: str, message: str = "injected", **headers: str) -> Answer:
    """Answer with a Status object, as the API server refuses; `Retry_After="1"` names a header."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": status,
    }
    return Answer(status, body, {name.replace("_", "-"): text for name, text in headers.items()})


@dataclass(frozen=True)
class Raw:
    """Send these bytes as the reply, whatever they are; an endless iterable ends with the client.

    hang: keep the connection open afterwards, silently, instead of ending it.
    """

    pieces: Iterable[bytes]
    hang: bool = False


class Gate:
    """Stops what passes through it while it is closed; opened and closed by the test's thread."""

    def __init__(self, *, closed: bool = True) -> None:
        self._lock = threading.Lock()
        self._opened: Future[None] = Future()
        self._reached = threading.Event()
        if not closed:
            self.open()

    def open(self) -> None:
        """Let everything pass, from now on."""
        with self._lock:
            if not self._opened.done():
                self._opened.set_result(None)

    def close(self) -> None:
        """Hold everything that comes from now on."""
        with self._lock:
            if self._opened.done():
                self._opened = Future()
                self._reached.clear()

    def wait_until_reached(self, seconds: float = 30) -> None:
        """Wait until something stands before the closed gate. Raises TimeoutError."""
        if not self._reached.wait(seconds):
            raise TimeoutError(f"nothing has reached the gate in {seconds} s")

    async def passed(self) -> None:
        """Return when the gate is open."""
        with self._lock:
            opened = self._opened
            if not opened.done():
                self._reached.set()
        # Shielded: who gives up waiting must not open the gate for the others.
        await asyncio.shield(asyncio.wrap_future(opened))


@dataclass(frozen=True)
class Hold:
    """Stop the request at a gate, then pass it on.

    after_reply: let the server answer first, and stop its reply.
    """

    gate: Gate
    after_reply: bool = False


@dataclass(frozen=True)
class Hook:
    """Call `before` ahead of passing the request on, and `after` between reply and client.

    Both run to their end, in a thread, before anything else happens to this request. An exception
    cuts the connection and comes out of `Proxy.close`.
    """

    before: Callable[[Request], object] | None = None
    after: Callable[[Request, Reply], object] | None = None


@dataclass(frozen=True)
class CutStream:
    """Pass so many events of a watch, then end the connection inside the reply."""

    events: int = 0


@dataclass(frozen=True)
class SilenceStream:
    """Pass so many events of a watch, then nothing more; the connection stays open."""

    events: int = 0


@dataclass(frozen=True)
class DelayStream:
    """Pass so many events of a watch, and each later one when the gate is open."""

    gate: Gate
    events: int = 0


Action = (
    Forward
    | CutBeforeSending
    | CutReply
    | Answer
    | Raw
    | Hold
    | Hook
    | CutStream
    | SilenceStream
    | DelayStream
)
