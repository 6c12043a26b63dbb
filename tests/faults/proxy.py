"""A TLS-terminating proxy between a client and the real API server, which injects faults.

It passes on method, target, headers and body as they came, so user agent and token are the
client's own and the audit log shows what really reached the server. Each request has an upstream
connection of its own: a cut is then always of this request, never of a neighbour.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from hack.cluster.certificates import Certificate
from tests.faults.actions import Action, Forward, Request
from tests.faults.handling import CutError, Handling
from tests.faults.wire import HEAD_LIMIT, body_pieces, read_head

Matcher = Callable[[Request], bool]


class Upstream(Protocol):
    """What the proxy needs of a cluster."""

    server: str
    ca_file: Path

    def issue_certificate(self, name: str) -> Certificate:
        """Issue a server certificate for loopback."""

    def kubeconfig_for(self, *, server: str) -> Path:
        """Write a kubeconfig with another server URL."""


def everything(request: Request) -> bool:
    """Match every request."""
    return True


@dataclass
class _Rule:
    when: Matcher
    action: Action | Callable[[Request], Action]
    first: int
    times: int | None
    seen: int = field(default=0)

    def take(self, request: Request) -> Action | None:
        if not self.when(request):
            return None
        self.seen += 1
        late = self.times is not None and self.seen >= self.first + self.times
        if self.seen < self.first or late:
            return None
        return self.action(request) if not isinstance(self.action, Action) else self.action


class Proxy:
    """Runs in a thread of its own on a loopback port; a context manager.

    url: to be used instead of the cluster's. kubeconfig: the administrator's, by way of the proxy.
    """

    def __init__(self, cluster: Upstream) -> None:
        upstream = urlsplit(cluster.server)
        assert upstream.hostname is not None
        assert upstream.port is not None
        self._upstream = (upstream.hostname, upstream.port)
        self._upstream_tls = ssl.create_default_context(cafile=str(cluster.ca_file))
        issued = cluster.issue_certificate(f"proxy-{id(self)}")
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(issued.certificate, issued.key)
        self._rules: list[_Rule] = []
        self._requests: list[Request] = []
        self._lock = threading.Lock()
        self._connections: dict[asyncio.Task[None], Request | None] = {}
        self._errors: list[Exception] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy")
        self._thread.start()
        self._server = self._call(self._listen())
        self.url = f"https://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        self.kubeconfig = cluster.kubeconfig_for(server=self.url)

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all connections and the thread. Raises what hooks raised, as an ExceptionGroup."""
        self._call(self._shut_down())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        if self._errors:
            raise ExceptionGroup("hooks of the fault proxy failed", self._errors)

    def inject(
        self,
        action: Action | Callable[[Request], Action],
        *,
        when: Matcher = everything,
        first: int = 1,
        times: int | None = None,
    ) -> None:
        """Do `action` with matching requests, from the first-th on, so many times (None: always).

        Requests are counted from now on. Where several injections apply, the latest one wins.
        """
        with self._lock:
            self._rules.insert(0, _Rule(when, action, first, times))

    def clear(self) -> None:
        """Forget all injections; requests under way end as they began."""
        with self._lock:
            self._rules.clear()

    def cut(self, when: Matcher = everything) -> None:
        """End the connections whose present request matches; by default all, idle ones too."""
        self._call(self._cut(when))

    @property
    def requests(self) -> list[Request]:
        """All requests seen so far, in the order of their arrival."""
        with self._lock:
            return list(self._requests)

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=30)

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(
            self._serve, "127.0.0.1", 0, ssl=self._tls, limit=HEAD_LIMIT
        )

    async def _cut(self, when: Matcher) -> None:
        chosen = [
            task
            for task, request in self._connections.items()
            if (request is None and when is everything) or (request is not None and when(request))
        ]
        for task in chosen:
            task.cancel()
        await asyncio.gather(*chosen, return_exceptions=True)

    async def _shut_down(self) -> None:
        self._server.close()
        await self._cut(everything)
        await self._loop.shutdown_default_executor()

    def _decide(self, request: Request) -> Action:
        with self._lock:
            self._requests.append(request)
            # Each injection counts what it matches, also where another one decides.
            actions = [action for rule in self._rules if (action := rule.take(request))]
        return actions[0] if actions else Forward()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = None
        # One for the whole connection: cancelling a wait for it would end it for all others.
        gone = asyncio.ensure_future(writer.wait_closed())
        try:
            while (head := await read_head(reader)) is not None:
                pieces = [piece async for piece in body_pieces(reader, head)]
                method, target, _ = head.first.split(" ", 2)
                content = b"".join(content for _, content in pieces)
                request = Request(method, target, head.headers, content)
                self._connections[task] = request
                raw = head.raw + b"".join(framed for framed, _ in pieces)
                handling = Handling(request, raw, writer, gone, self._open_upstream)
                await handling.run(self._decide(request))
                self._connections[task] = None
        except (CutError, OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        except Exception as error:  # noqa: BLE001 - a test's hook may fail in any way
            self._errors.append(error)
        finally:
            # Not a polite TLS close: a client must find its connection broken.
            writer.transport.abort()
            with suppress(asyncio.CancelledError):
                # Cut once more while it ends, as at the end of all, it ends all the same.
                await asyncio.gather(gone, return_exceptions=True)
            del self._connections[task]

    async def _open_upstream(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(
            *self._upstream, ssl=self._upstream_tls, limit=HEAD_LIMIT
        )
