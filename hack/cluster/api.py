"""A small synchronous client of the API server for demo, tests and benchmarks.

It shares no code with the product's client, so that a test never checks that client with itself.
"""

from __future__ import annotations

import http.client
import json
import select
import ssl
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

JsonObject = dict[str, Any]
JsonObjects = list[JsonObject]

USER_AGENT = "whereabouts-fast-loopback"
_REQUEST_SECONDS = 30.0


class ApiError(Exception):
    """The API server refused a request: HTTP status, reason and message of its Status object."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


@dataclass(frozen=True)
class Answer:
    """One reply as it came: status, headers with lower-case names, body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> JsonObject:
        """Decode the body; raises ValueError when it is not a JSON object."""
        value = json.loads(self.body)
        if not isinstance(value, dict):
            raise ValueError(f"expected a JSON object, got {value!r:.200}")
        return value


class Api:
    """Requests with a bearer token over kept connections; safe to share between threads.

    server: URL without a path. Paths are given as the API server has them ("/api/v1/nodes/n1").
    """

    def __init__(
        self, server: str, ca_file: Path | str, token: str, *, user_agent: str = USER_AGENT
    ) -> None:
        address = urlsplit(server)
        if address.scheme != "https" or not address.hostname or not address.port:
            raise ValueError(f"server {server!r} is not of the form https://host:port: correct it")
        self._host, self._port = address.hostname, address.port
        self._tls = ssl.create_default_context(cafile=str(ca_file))
        self._headers = {"Authorization": f"Bearer {token}", "User-Agent": user_agent}
        self._idle: list[http.client.HTTPSConnection] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Api:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the idle connections; the client may still be used."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def exchange(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        seconds: float = _REQUEST_SECONDS,
    ) -> Answer:
        """Send one request and return the reply, whatever its status. Raises OSError."""
        connection = self._connection()
        try:
            self._send(connection, method, path, body, headers, seconds)
            response = connection.getresponse()
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

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        seconds: float = _REQUEST_SECONDS,
    ) -> JsonObject:
        """Send one request and return the decoded object. Raises ApiError and OSError."""
        answer = self.exchange(method, path, body, headers=headers, seconds=seconds)
        if answer.status >= 400:
            raise _failure(answer)
        try:
            return answer.json()
        except ValueError as error:
            # http.client takes a connection that ends inside the headers for a whole reply.
            raise ConnectionError(f"{method} {path}: {error}") from error

    def get(self, path: str) -> JsonObject:
        """Read one object, or a whole list object."""
        return self.request("GET", path)

    def list(self, path: str, **parameters: str) -> JsonObjects:
        """Read the items of a collection, with query parameters such as labelSelector."""
        items: JsonObjects = self.get(_with_query(path, parameters))["items"]
        return items

    def create(self, path: str, body: JsonObject) -> JsonObject:
        """Create `body` in the collection `path`."""
        return self.request("POST", path, body)

    def replace(self, path: str, body: JsonObject) -> JsonObject:
        """Replace the object at `path` by `body`."""
        return self.request("PUT", path, body)

    def patch(self, path: str, change: Sequence[JsonObject] | JsonObject) -> JsonObject:
        """Apply a JSON Patch (a list of operations) or a merge patch (an object)."""
        form = "merge-patch" if isinstance(change, dict) else "json-patch"
        headers = {"Content-Type": f"application/{form}+json"}
        return self.request("PATCH", path, change, headers=headers)

    def delete(
        self,
        path: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace: int | None = None,
    ) -> JsonObject:
        """Delete the object or the collection at `path`, with preconditions; grace in seconds."""
        options: JsonObject = {"apiVersion": "v1", "kind": "DeleteOptions"}
        conditions = {"uid": uid, "resourceVersion": resource_version}
        if given := {key: value for key, value in conditions.items() if value is not None}:
            options["preconditions"] = given
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        return self.request("DELETE", path, options)

    def exists(self, path: str) -> bool:
        """Tell whether there is an object at `path`."""
        status = self.exchange("GET", path).status
        if status not in (200, 404):
            raise ApiError(status, "Unexpected", f"GET {path}")
        return status == 200

    def watch(
        self, path: str, *, seconds: float = _REQUEST_SECONDS, **parameters: str
    ) -> Generator[JsonObject]:
        """Yield watch events of a collection until the server ends it or `seconds` have passed.

        Raises ApiError for an ERROR event, TimeoutError after `seconds`, OSError.
        """
        query = {"watch": "true", "timeoutSeconds": str(int(seconds) + 1), **parameters}
        deadline = time.monotonic() + seconds
        connection = http.client.HTTPSConnection(self._host, self._port, context=self._tls)
        try:
            self._send(connection, "GET", _with_query(path, query), None, None, seconds)
            response = connection.getresponse()
            if response.status >= 400:
                raise _failure(Answer(response.status, {}, response.read()))
            for line in self._lines(connection, response, path, deadline):
                event: JsonObject = json.loads(line)
                if event["type"] == "ERROR":
                    raise _refused(event["object"])
                yield event
        finally:
            connection.close()

    def wait_for(
        self,
        path: str,
        condition: Callable[[JsonObjects], bool],
        *,
        seconds: float = _REQUEST_SECONDS,
        **parameters: str,
    ) -> JsonObjects:
        """Wait until the objects of a collection fulfil `condition`; return them.

        Looks again at each change that the API server reports, never by the clock. For a single
        object give `fieldSelector="metadata.name=..."`. Raises TimeoutError, showing the objects.
        """
        deadline = time.monotonic() + seconds
        objects: dict[tuple[str, str], JsonObject] = {}
        while True:
            answer = self.get(_with_query(path, parameters))
            objects = {_key(item): item for item in answer["items"]}
            if condition(list(objects.values())):
                return list(objects.values())
            version = answer["metadata"]["resourceVersion"]
            try:
                for event in self.watch(
                    path,
                    seconds=max(0.0, deadline - time.monotonic()),
                    resourceVersion=version,
                    **parameters,
                ):
                    if event["type"] == "DELETED":
                        objects.pop(_key(event["object"]), None)
                    else:
                        objects[_key(event["object"])] = event["object"]
                    if condition(list(objects.values())):
                        return list(objects.values())
            except ApiError as failure:
                if failure.status != 410:
                    raise
            except TimeoutError:
                shown = json.dumps(list(objects.values()))
                raise TimeoutError(
                    f"waited {seconds} s in vain for {path}, which has now: {shown:.3000}"
                ) from None

    def _lines(
        self,
        connection: http.client.HTTPSConnection,
        response: http.client.HTTPResponse,
        path: str,
        deadline: float,
    ) -> Iterator[bytes]:
        rest = b""
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"watching {path}: the time is over")
            if connection.sock is not None:
                connection.sock.settimeout(left)
            try:
                # Not readline: that takes a cut connection for the end of the stream.
                piece = response.read1(1 << 16)
            except http.client.HTTPException as error:
                raise ConnectionError(f"watching {path}: cut inside the stream") from error
            if not piece:
                return
            *lines, rest = (rest + piece).split(b"\n")
            yield from lines

    def _connection(self) -> http.client.HTTPSConnection:
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
        headers: Mapping[str, str] | None,
        seconds: float,
    ) -> None:
        connection.timeout = seconds
        if connection.sock is not None:
            connection.sock.settimeout(seconds)
        content = None if body is None else json.dumps(body).encode()
        kind = {} if body is None else {"Content-Type": "application/json"}
        connection.request(method, path, content, {**self._headers, **kind, **(headers or {})})


def _with_query(path: str, parameters: Mapping[str, str]) -> str:
    if not parameters:
        return path
    return f"{path}{'&' if '?' in path else '?'}{urlencode(parameters, quote_via=quote)}"


def _key(item: JsonObject) -> tuple[str, str]:
    metadata = item["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _failure(answer: Answer) -> ApiError:
    try:
        return _refused({"code": answer.status, **answer.json()})
    except ValueError:
        return ApiError(answer.status, "", answer.body.decode(errors="replace")[:500])


def _refused(status: JsonObject) -> ApiError:
    return ApiError(status["code"], status.get("reason", ""), status.get("message", ""))
