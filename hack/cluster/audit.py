"""Counts requests in the API server's audit log: exactly, between two points in time.

Two properties of the log make the counts exact. The server writes in blocking mode, so a request's
RequestReceived event is in the file before its reply is sent; and each request has one audit id,
by which its later events are found. A request belongs to the interval in which it was received,
and it is counted once its outcome is known: a watch when its stream has begun, any other when it
is complete. Source: k8s.io/apiserver, pkg/endpoints/filters/audit.go.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

MARKER_AGENT = "whereabouts-fast-audit-marker"
_SETTLE_SECONDS = 15.0


@dataclass(frozen=True)
class Request:
    """One request as the server saw it.

    agent: product of the user agent, without version. resource: plural, "/subresource" appended;
    for a path outside the resources, that path. code: HTTP status; 0 when the server was killed
    before it had one. position: offset in the log where it was received.
    """

    agent: str
    user_agent: str
    user: str
    verb: str
    resource: str
    namespace: str
    name: str
    code: int
    uri: str
    received: str
    position: int


CountKey = tuple[str, str, str, int]


class AuditLog:
    """The audit log at `path`; `touch(user_agent, path)` sends one request to the server."""

    def __init__(self, path: Path, touch: Callable[[str, str], None]) -> None:
        self.path = path
        self._touch = touch
        self._lock = threading.Lock()
        self._offset = 0
        self._order: list[str] = []
        self._requests: dict[str, Request] = {}
        # Without an outcome yet, and watches whose stream still runs.
        self._open: set[str] = set()
        self._streaming: set[str] = set()
        self._markers: dict[str, int] = {}

    def mark(self) -> int:
        """Return the present point: all requests answered so far lie before it.

        Raises OSError when the server does not answer.
        """
        token = uuid.uuid4().hex
        self._touch(f"{MARKER_AGENT}/1", f"/version?mark={token}")
        with self._lock:
            self._read()
            return self._markers.pop(token)

    def entries(
        self, since: int, until: int | None = None, *, ended: bool = False
    ) -> list[Request]:
        """Return the requests received between two points, in order, all with their outcome.

        Without `until`, up to now. ended: wait also for the end of watches, which are otherwise
        settled when their stream begins. Raises TimeoutError naming the requests that stay open.
        """
        end = self.mark() if until is None else until
        deadline = time.monotonic() + _SETTLE_SECONDS
        while True:
            with self._lock:
                self._read()
                pending = self._open | self._streaming if ended else self._open
                waiting = [key for key in pending if since < self._requests[key].position < end]
                if not waiting:
                    found = (self._requests[key] for key in self._order)
                    return [request for request in found if since < request.position < end]
                unanswered = [self._requests[key] for key in waiting]
            if time.monotonic() > deadline:
                raise TimeoutError(f"without an outcome after {_SETTLE_SECONDS} s: {unanswered}")
            time.sleep(0.005)

    def counts(self, since: int, until: int | None = None) -> Counter[CountKey]:
        """Count requests between two points by (agent, verb, resource, code)."""
        return Counter(
            (request.agent, request.verb, request.resource, request.code)
            for request in self.entries(since, until)
        )

    def server_killed(self) -> None:
        """Settle what a killed server left: no outcome will come for its open requests."""
        with self._lock:
            if not self.path.exists():
                return
            self._read()
            self._open.clear()
            self._streaming.clear()
            if self.path.stat().st_size > self._offset:
                # The next server appends: a half-written line would spoil its first one.
                with self.path.open("r+b") as file:
                    file.truncate(self._offset)

    def _read(self) -> None:
        with self.path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._take(json.loads(line), self._offset)
                self._offset += len(line)

    def _take(self, event: dict[str, Any], position: int) -> None:
        user_agent = event.get("userAgent", "")
        if user_agent.startswith(MARKER_AGENT):
            self._markers.setdefault(event["requestURI"].partition("mark=")[2], position)
            return
        key = event["auditID"]
        if key not in self._requests:
            self._order.append(key)
            self._requests[key] = _request(event, position)
            self._open.add(key)
        stage = event["stage"]
        settled = stage in ("ResponseComplete", "Panic") or (
            stage == "ResponseStarted" and event["verb"] == "watch"
        )
        # A request that fails authentication has this one event only.
        refused = stage == "ResponseStarted" and _code(event) == 401
        if key in self._open and (settled or refused):
            self._open.discard(key)
            self._requests[key] = replace(self._requests[key], code=_code(event))
            if stage == "ResponseStarted" and not refused:
                self._streaming.add(key)
        elif stage in ("ResponseComplete", "Panic"):
            self._streaming.discard(key)


def _code(event: dict[str, Any]) -> int:
    status = event.get("responseStatus") or {}
    code: int = status.get("code", 500 if event["stage"] == "Panic" else 0)
    return code


def _request(event: dict[str, Any], position: int) -> Request:
    reference = event.get("objectRef") or {}
    resource = reference.get("resource") or event["requestURI"].partition("?")[0]
    if subresource := reference.get("subresource"):
        resource += f"/{subresource}"
    user_agent = event.get("userAgent", "")
    return Request(
        agent=user_agent.partition("/")[0],
        user_agent=user_agent,
        user=event.get("user", {}).get("username", ""),
        verb=event["verb"],
        resource=resource,
        namespace=reference.get("namespace", ""),
        name=reference.get("name", ""),
        code=0,
        uri=event["requestURI"],
        received=event["requestReceivedTimestamp"],
        position=position,
    )
