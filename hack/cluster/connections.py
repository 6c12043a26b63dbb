"""Kept HTTPS connections to one server, for a client that runs in many threads."""

from __future__ import annotations

import http.client
import json
import select
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Answer:
    """One reply as it came: status, headers with lower-case names, body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        """Decode the body; raises ValueError when it is not a JSON object."""
        value = json.loads(self.body)
        if not isinstance(value, dict):
            raise ValueError(f"expected a JSON object, got {value!r:.200}")
        return value


class Connections:
    """A pool of connections that all send `headers`; raises OSError when the wire fails.

    server: URL without a path, such as https://127.0.0.1:6443.
    """

    def __init__(self, server: str, ca_file: Path | str, headers: Mapping[str, str]) -> None:
        address = urlsplit(server)
        if address.scheme != "https" or not address.hostname or not address.port:
            raise ValueError(f"server {server!r} is not of the form https://host:port: correct it")
        self._host, self._port = address.hostname, address.port
        self._tls = ssl.create_default_context(cafile=str(ca_file))
        self._headers = dict(headers)
        self._idle: list[http.client.HTTPSConnection] = []
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the idle connections; the pool may still be used."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def exchange(
        self, method: str, path: str, body: object, headers: Mapping[str, str], seconds: float
    ) -> Answer:
        """Send one request and return its whole reply."""
        connection = self._take()
        try:
            response = self._send(connection, method, path, body, headers, seconds)
            answer = Answer(
                response.status,
                {name.lower(): value for name, value in response.getheaders()},
                response.read(),
            )
        except http.client.HTTPException as error:
            connection.close()
            raise ConnectionError(f"{method} {path}: {error!r}") from error
        except BaseException:
            connection.close()
            raise
        if response.will_close:
            connection.close()
        else:
            with self._lock:
                self._idle.append(connection)
        return answer

    @contextmanager
    def stream(self, path: str, seconds: float) -> Iterator[tuple[int, Iterator[bytes]]]:
        """Send a GET on a connection of its own; give status and the lines as they arrive.

        The lines end with the reply. Raises TimeoutError after `seconds`.
        """
        deadline = time.monotonic() + seconds
        connection = http.client.HTTPSConnection(self._host, self._port, context=self._tls)
        try:
            response = self._send(connection, "GET", path, None, {}, seconds)
            yield response.status, _lines(connection, response, path, deadline)
        except http.client.HTTPException as error:
            raise ConnectionError(f"GET {path}: {error!r}") from error
        finally:
            connection.close()

    def _take(self) -> http.client.HTTPSConnection:
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                return http.client.HTTPSConnection(self._host, self._port, context=self._tls)
            # An idle connection with something to read was ended by the server, which may have
            # been restarted: a write on it would fail without telling whether it arrived.
            if connection.sock and not select.select([connection.sock], [], [], 0)[0]:
                return connection
            connection.close()

    def _send(
        self,
        connection: http.client.HTTPSConnection,
        method: str,
        path: str,
        body: object,
        headers: Mapping[str, str],
        seconds: float,
    ) -> http.client.HTTPResponse:
        connection.timeout = seconds
        if connection.sock is not None:
            connection.sock.settimeout(seconds)
        content = None if body is None else json.dumps(body).encode()
        kind = {} if body is None else {"Content-Type": "application/json"}
        connection.request(method, path, content, {**self._headers, **kind, **headers})
        return connection.getresponse()


def _lines(
    connection: http.client.HTTPSConnection,
    response: http.client.HTTPResponse,
    path: str,
    deadline: float,
) -> Iterator[bytes]:
    rest = b""
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"reading {path}: the time is over")
        if connection.sock is not None:
            connection.sock.settimeout(max(left, 0.001))  # zero would mean: do not wait at all
        # Not readline: that takes a cut connection for the end of the stream.
        piece = response.read1(1 << 16)
        if not piece:
            if rest:
                yield rest
            return
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
