"""Requests to the API server: dicts in, dicts out, errors from one tree.

Typed models are left aside on purpose: one pod as kubernetes_asyncio's model costs what an
informer may spend on fifty.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp

from whereabouts_fast.kube.credentials import SERVICE_ACCOUNT, Credentials
from whereabouts_fast.kube.errors import ServerError, Silent, Unreachable, from_answer
from whereabouts_fast.kube.hooks import RequestHook
from whereabouts_fast.kube.lines import LineLimitError, LineSplitter
from whereabouts_fast.kube.resource import Resource
from whereabouts_fast.kube.transport import Transport

Object = dict[str, Any]
Batches = AsyncGenerator[list[Object]]

_JSON = "application/json"
_JSON_PATCH = "application/json-patch+json"
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
# The server refuses requests above 3 MiB, and etcd objects above 1.5 MiB.
_LINE_LIMIT = 16 << 20


class Client:
    """One API server, one identity, one pool of connections; made by `Client.connect`.

    All methods raise only `kube.errors`. A namespace of None means all namespaces in lists and
    is required for kinds that have none.
    """

    def __init__(self, credentials: Credentials, transport: Transport) -> None:
        self._credentials = credentials
        self._transport = transport

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        kubeconfig: str | None,
        user_agent: str,
        *,
        limit: float = 30.0,
        hook: RequestHook | None = None,
        service_account: Path = SERVICE_ACCOUNT,
    ) -> AsyncIterator["Client"]:
        """A client for a kubeconfig file, or (None) for the in-cluster configuration.

        limit: seconds for one request, connecting included. Raises ConfigurationError.
        """
        credentials = Credentials(kubeconfig, service_account)
        await credentials.load()
        transport = Transport(credentials, user_agent, limit=limit, hook=hook)
        try:
            yield cls(credentials, transport)
        finally:
            await transport.close()

    @property
    def namespace(self) -> str | None:
        """The kubeconfig context's namespace, or the pod's own; None when neither says."""
        return self._credentials.namespace

    async def get(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        metadata_only: bool = False,
    ) -> Object:
        """One object, read from storage (not from the server's watch cache)."""
        path = resource.path(namespace, name)
        return await self._request("get", resource, path, accept=_accept(metadata_only))

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        metadata_only: bool = False,
        limit: int | None = None,
        continue_token: str | None = None,
    ) -> Object:
        """One page of a list as the server sends it; Gone when the continue token has expired."""
        query = _selectors(label_selector, field_selector)
        if limit is not None:
            query["limit"] = str(limit)
        if continue_token:
            query["continue"] = continue_token
        accept = _METADATA_LIST if metadata_only else _JSON
        path = resource.path(namespace)
        return await self._request("list", resource, path, query=query, accept=accept)

    async def create(self, resource: Resource, namespace: str | None, body: Object) -> Object:
        """The object as stored; AlreadyExists when its name is taken."""
        path = resource.path(namespace)
        return await self._request("create", resource, path, body=body)

    async def replace(
        self, resource: Resource, namespace: str | None, name: str, body: Object
    ) -> Object:
        """The object as stored; Conflict when `body` is not of the current resourceVersion.

        A body without metadata.resourceVersion would overwrite blindly: ValueError.
        """
        if not body["metadata"].get("resourceVersion"):
            raise ValueError(f"replacing {resource.plural} {name!r} needs its resourceVersion")
        path = resource.path(namespace, name)
        return await self._request("update", resource, path, body=body)

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        ops: Sequence[Mapping[str, Any]],
        *,
        metadata_only: bool = False,
    ) -> Object:
        """The object after a JSON Patch (RFC 6902); Invalid when one of its tests failed."""
        path = resource.path(namespace, name)
        return await self._request(
            "patch",
            resource,
            path,
            body=ops,
            content=_JSON_PATCH,
            accept=_accept(metadata_only),
        )

    async def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> Object:
        """Delete one object; Conflict when it is not the one of `uid` and `resource_version`."""
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        if given := {key: value for key, value in preconditions.items() if value is not None}:
            options["preconditions"] = given
        path = resource.path(namespace, name)
        return await self._request("delete", resource, path, body=options)

    @asynccontextmanager
    async def stream(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        query: Mapping[str, str],
        field_selector: str | None = None,
        metadata_only: bool = False,
        silence: float,
    ) -> AsyncIterator[Batches]:
        """An open watch: batches of events, in order, until the server ends it.

        query: `resourceVersion`, `timeoutSeconds` and the like. Raises Silent when no byte comes
        for `silence` seconds; ERROR events are handed out, not raised.
        """
        everything = {"watch": "true", **query, **_selectors(None, field_selector)}
        target = f"{resource.path(namespace)}?{urlencode(everything)}"
        headers = {"Accept": _accept(metadata_only)}
        try:
            async with self._transport.send("GET", target, headers, silence=silence) as response:
                await _check(response, "watch", resource)
                async with aclosing(_batches(response.content, resource)) as batches:
                    yield batches
        except TimeoutError as error:
            raise Silent(
                "Silent", f"a watch of {resource.full_name} brought nothing for {silence:g} s"
            ) from error

    async def _request(
        self,
        verb: str,
        resource: Resource,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content: str = _JSON,
        accept: str = _JSON,
    ) -> Object:
        headers = {"Accept": accept}
        data = None
        if body is not None:
            headers["Content-Type"] = content
            data = json.dumps(body, separators=(",", ":")).encode()
        target = f"{path}?{urlencode(query)}" if query else path
        async with self._transport.send(_METHODS[verb], target, headers, data) as response:
            await _check(response, verb, resource)
            answer = await response.read()
        try:
            decoded = json.loads(answer)
        except ValueError:
            decoded = None
        if not isinstance(decoded, dict):
            quoted = from_answer(502, answer, verb=verb, resource=resource.full_name)
            raise ServerError(200, "Malformed", quoted.message)
        return decoded


_METHODS = {
    "get": "GET",
    "list": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
}


def _accept(metadata_only: bool) -> str:
    return _METADATA if metadata_only else _JSON


def _selectors(label: str | None, field: str | None) -> dict[str, str]:
    given = {"labelSelector": label, "fieldSelector": field}
    return {key: value for key, value in given.items() if value}


async def _check(response: aiohttp.ClientResponse, verb: str, resource: Resource) -> None:
    if 200 <= response.status < 300:
        return
    raise from_answer(
        response.status,
        await response.read(),
        verb=verb,
        resource=resource.full_name,
        retry_after=response.headers.get("Retry-After"),
    )


async def _batches(content: aiohttp.StreamReader, resource: Resource) -> Batches:
    splitter = LineSplitter(_LINE_LIMIT)
    while chunk := await content.readany():
        try:
            events = [json.loads(line) for line in splitter.feed(chunk)]
        except LineLimitError as error:
            raise ServerError(200, "LineTooLong", f"watch {resource.full_name}: {error}") from error
        except ValueError as error:
            # A proxy's page instead of events, or half a line cut by one.
            raise Unreachable(
                "Malformed", f"watch {resource.full_name}: not an event: {error}"
            ) from error
        if events:
            yield events
