"""HTTP to one API server: connections, identity, time limits, and errors of our own.

The only module that calls aiohttp. kubernetes_asyncio loads the configuration, makes the
connector with its TLS context and says which header carries our identity.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp.connector import Connection
from yarl import URL

from whereabouts_fast.kube.credentials import Credentials
from whereabouts_fast.kube.errors import ConfigurationError, Unauthorized, Unreachable
from whereabouts_fast.kube.hooks import RequestHook
from whereabouts_fast.kube.library import ApiClient, ConfigException

_CONNECT = 10.0
# client-go's label for a request that got no answer.
_NO_ANSWER = "<error>"


class _Response(aiohttp.ClientResponse):
    """Leaves no connection behind that waits half a minute for a silent peer to say goodbye."""

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        try:
            return await super().start(connection)
        except BaseException:
            _abort(connection)
            raise


class _Link:
    """The connections of one set of TLS settings, and how many requests are using them."""

    def __init__(self, credentials: Credentials, user_agent: str) -> None:
        self.api: ApiClient = credentials.api_client()
        self.tls = credentials.tls
        self.server = credentials.server
        self.server_name = credentials.server_name
        self.proxy = credentials.proxy
        self.users = 0
        # Not kubernetes_asyncio's own session: that one asks a thread for netrc and proxies at
        # each request, and would follow a redirect with our token.
        self.session = aiohttp.ClientSession(
            connector=self.api.rest_client.pool_manager.connector,
            connector_owner=False,
            headers={"User-Agent": user_agent, "Accept-Encoding": "identity"},
            read_bufsize=1 << 20,
            response_class=_Response,
        )

    async def close(self) -> None:
        await self.session.close()
        await self.api.close()


class Transport:
    """Sends requests with the identity of `credentials` (loaded already).

    limit: seconds for a whole request, unless it is a stream.
    """

    def __init__(
        self,
        credentials: Credentials,
        user_agent: str,
        *,
        limit: float,
        hook: RequestHook | None = None,
    ) -> None:
        self.limit = limit
        self._credentials = credentials
        self._user_agent = user_agent
        self._hook = hook
        self._reload = asyncio.Lock()
        self._link = _Link(credentials, user_agent)

    async def close(self) -> None:
        """Give back all connections."""
        await self._link.close()

    @asynccontextmanager
    async def send(
        self,
        method: str,
        target: str,
        headers: dict[str, str],
        data: bytes | None = None,
        *,
        silence: float | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer to one request, whatever its status; its body is read inside the block.

        target: quoted path with query. silence: makes it a stream, which ends by TimeoutError
        only when no byte came for so many seconds. Everything else that goes wrong on the way,
        in the block too, is Unreachable (or Unauthorized, when no token can be read).
        """
        timeout = (
            aiohttp.ClientTimeout(total=self.limit, sock_connect=_CONNECT)
            if silence is None
            else aiohttp.ClientTimeout(sock_connect=_CONNECT, sock_read=silence)
        )
        began = time.monotonic()
        code = _NO_ANSWER
        link = self._link
        link.users += 1
        try:
            link, response = await self._identified(link, method, target, headers, data, timeout)
            code = str(response.status)
            if silence is not None:
                self._count(method, code, began)
            try:
                yield response
            finally:
                _tear_off(response)
        except (aiohttp.ClientError, OSError) as error:
            if silence is not None and isinstance(error, TimeoutError) and code != _NO_ANSWER:
                raise TimeoutError from error
            raise _unreachable(self.limit, error) from error
        finally:
            if silence is None or code == _NO_ANSWER:
                self._count(method, code, began)
            await self._leave(link)

    def _count(self, method: str, code: str, began: float) -> None:
        if self._hook is not None:
            self._hook(method, code, time.monotonic() - began)

    async def _identified(
        self,
        link: _Link,
        method: str,
        target: str,
        headers: dict[str, str],
        data: bytes | None,
        timeout: aiohttp.ClientTimeout,
    ) -> tuple[_Link, aiohttp.ClientResponse]:
        identity = await _identify(link, headers)
        response = await _transmit(link, method, target, headers, data, timeout)
        if response.status == 401 and await self._renewed(link, identity):
            _tear_off(response)
            fresh = self._link
            fresh.users += 1
            await self._leave(link)
            link = fresh
            await _identify(link, headers)
            response = await _transmit(link, method, target, headers, data, timeout)
        return link, response

    async def _leave(self, link: _Link) -> None:
        link.users -= 1
        if link is not self._link and link.users == 0:
            await link.close()

    async def _renewed(self, link: _Link, identity: str | None) -> bool:
        """Load the credentials again, once for all requests that were refused with the same."""
        async with self._reload:
            if link is not self._link or await _identify(link, {}) != identity:
                return True
            try:
                await self._credentials.load()
                if self._credentials.tls != link.tls:
                    self._link = _Link(self._credentials, self._user_agent)
                    return True
            except (ConfigurationError, OSError):
                # The file may be half written; the refusal itself is what the caller gets.
                return False
            link.api.configuration = self._credentials.configuration
            return await _identify(link, {}) != identity


async def _identify(link: _Link, headers: dict[str, str]) -> str | None:
    """Put our identity into `headers`, and return it."""
    headers.pop("authorization", None)
    try:
        await link.api.update_params_for_auth(headers, [], ["BearerToken"])
    except (ConfigException, OSError, ValueError) as error:
        raise Unauthorized(401, "Unauthorized", f"the token cannot be read: {error}") from error
    value = headers.get("authorization")
    if value is not None:
        # Token files tend to end in a newline, which a header must not hold.
        value = headers["authorization"] = value.strip()
        if not (value.isascii() and value.isprintable()):
            raise Unauthorized(401, "Unauthorized", "the token is not one line of plain text")
    return value


async def _transmit(
    link: _Link,
    method: str,
    target: str,
    headers: dict[str, str],
    data: bytes | None,
    timeout: aiohttp.ClientTimeout,
) -> aiohttp.ClientResponse:
    return await link.session.request(
        method,
        URL(link.server + target, encoded=True),
        headers=headers,
        data=data,
        timeout=timeout,
        allow_redirects=False,
        proxy=link.proxy,
        server_hostname=link.server_name,
    )


def _tear_off(response: aiohttp.ClientResponse) -> None:
    # An answer that was read to its end has given back its connection already; what still has one
    # was not, and its connection cannot be used again.
    if response.connection is not None:
        _abort(response.connection)
    response.close()


def _abort(connection: Connection) -> None:
    # Closing in good order would wait for the peer's answer, and go on after the session's end.
    if connection.transport is not None:
        connection.transport.abort()


def _unreachable(limit: float, error: Exception) -> Unreachable:
    if isinstance(error, TimeoutError):
        return Unreachable("Timeout", f"no answer from the API server within {limit:g} s")
    what = str(error) or type(error).__name__
    return Unreachable(type(error).__name__, f"the API server cannot be reached: {what}")
