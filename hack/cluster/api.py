"""A small synchronous client of the API server for demo, tests and benchmarks.

It shares no code with the product's client, so that a test never checks that client with itself.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from hack.cluster.connections import Answer, Connections

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


class Api:
    """Requests with a bearer token over kept connections; safe to share between threads.

    server: URL without a path. Paths are given as the API server has them ("/api/v1/nodes/n1").
    """

    def __init__(
        self, server: str, ca_file: Path | str, token: str, *, user_agent: str = USER_AGENT
    ) -> None:
        headers = {"Authorization": f"Bearer {token}", "User-Agent": user_agent}
        self._connections = Connections(server, ca_file, headers)

    def __enter__(self) -> Api:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the idle connections; the client may still be used."""
        self._connections.close()

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
        return self._connections.exchange(method, path, body, headers or {}, seconds)

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
        with self._connections.stream(_with_query(path, query), seconds) as (status, lines):
            if status >= 400:
                raise _failure(Answer(status, {}, b"\n".join(lines)))
            for line in lines:
                event: JsonObject = json.loads(line)
                if event["type"] == "ERROR":
                    raise _refused(event["object"])
                yield event

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
            try:
                answer = self.get(_with_query(path, parameters))
                objects = {_key(item): item for item in answer["items"]}
                if condition(list(objects.values())):
                    return list(objects.values())
                version = answer["metadata"]["resourceVersion"]
                for event in self.watch(
                    path,
                    seconds=max(0.01, deadline - time.monotonic()),
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
                # A definition that was just changed is answered 429 for a moment.
                if failure.status not in (410, 429) or time.monotonic() > deadline:
                    raise
            except TimeoutError:
                shown = json.dumps(list(objects.values()))
                raise TimeoutError(
                    f"waited {seconds} s in vain for {path}, which has now: {shown:.3000}"
                ) from None


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
