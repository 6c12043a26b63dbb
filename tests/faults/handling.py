"""Carries out one action on one request between client and server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from tests.faults.actions import (
    Action,
    Answer,
    CutBeforeSending,
    CutReply,
    CutStream,
    DelayStream,
    Forward,
    Hold,
    Hook,
    Raw,
    Request,
    SilenceStream,
)
from tests.faults.wire import Head, Reply, body_pieces, encode_reply, read_head, status_of

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_LAST_CHUNK = b"0\r\n\r\n"


class CutError(Exception):
    """Ends the client's connection at once."""


class Handling:
    """One request (`raw` as it came), its client, and the way to the server.

    gone: done when the client has ended its connection.
    """

    def __init__(
        self,
        request: Request,
        raw: bytes,
        client: asyncio.StreamWriter,
        gone: asyncio.Future[None],
        open_upstream: Callable[[], Awaitable[Streams]],
    ) -> None:
        self._request = request
        self._raw = raw
        self._client = client
        self._gone = gone
        self._open_upstream = open_upstream
        self._closes = request.headers.get("connection", "").lower() == "close"

    async def run(self, action: Action) -> None:
        """Do it; stop as soon as the client is gone. Raises CutError to end its connection."""
        work = asyncio.ensure_future(self._perform(action))
        try:
            await asyncio.wait([work, self._gone], return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise CutError
            await work
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
        if self._closes:
            raise CutError

    async def _perform(self, action: Action) -> None:
        match action:
            case Forward():
                await self._pass_on()
            case CutBeforeSending():
                raise CutError
            case CutReply(after_bytes):
                reply = await self._fetch()
                await self._send(reply.raw[:after_bytes])
                raise CutError
            case Answer(status):
                headers, body = action.encoded()
                self._heed(headers)
                await self._send(encode_reply(status, headers, body))
            case Raw(pieces, hang):
                for piece in pieces:
                    await self._send(piece)
                if hang:
                    await asyncio.Event().wait()
                raise CutError
            case Hold(gate, after_reply):
                if after_reply:
                    reply = await self._fetch()
                    await gate.passed()
                    await self._send(reply.raw)
                else:
                    await gate.passed()
                    await self._pass_on()
            case Hook(before, after):
                await self._hook(before, after)
            case CutStream() | SilenceStream() | DelayStream():
                await self._stream(action)

    async def _hook(
        self,
        before: Callable[[Request], object] | None,
        after: Callable[[Request, Reply], object] | None,
    ) -> None:
        if before is not None:
            await asyncio.to_thread(before, self._request)
        if after is None:
            await self._pass_on()
            return
        reply = await self._fetch()
        await asyncio.to_thread(after, self._request, reply)
        await self._send(reply.raw)

    async def _pass_on(self) -> None:
        async with self._exchange() as (head, pieces):
            await self._send(head.raw)
            async for framed, _ in pieces:
                await self._send(framed)

    async def _fetch(self) -> Reply:
        async with self._exchange() as (head, pieces):
            reply = Reply(status_of(head), head.headers, raw=head.raw)
            async for framed, content in pieces:
                reply.raw += framed
                reply.body += content
        return reply

    async def _stream(self, action: CutStream | SilenceStream | DelayStream) -> None:
        async with self._exchange() as (head, pieces):
            if not head.chunked:
                # A refused watch has no events: there is nothing to count.
                await self._send(head.raw)
                async for framed, _ in pieces:
                    await self._send(framed)
                return
            await self._send(head.raw)
            passed = 0
            async for line in _lines(pieces):
                if passed >= action.events:
                    match action:
                        case CutStream():
                            raise CutError
                        case SilenceStream():
                            await asyncio.Event().wait()
                        case DelayStream(gate):
                            await gate.passed()
                await self._send(f"{len(line):x}\r\n".encode() + line + b"\r\n")
                passed += 1
            await self._send(_LAST_CHUNK)

    @asynccontextmanager
    async def _exchange(self) -> AsyncIterator[tuple[Head, AsyncIterator[tuple[bytes, bytes]]]]:
        reader, writer = await self._open_upstream()
        try:
            writer.write(self._raw)
            await writer.drain()
            head = await read_head(reader)
            if head is None:
                raise ConnectionError("the server ended the connection without a reply")
            self._heed(head.headers)
            status = status_of(head)
            has_body = self._request.method != "HEAD" and status not in (204, 304)
            if has_body and head.length is None and not head.chunked:
                self._closes = True
            yield head, body_pieces(reader, head, has_body=has_body, until_close=True)
        finally:
            writer.transport.abort()

    def _heed(self, headers: dict[str, str]) -> None:
        if any(name.lower() == "connection" and "close" in text for name, text in headers.items()):
            self._closes = True

    async def _send(self, data: bytes) -> None:
        if self._client.transport.is_closing():
            raise ConnectionResetError("the client is gone")
        self._client.write(data)
        await self._client.drain()
        # While the client keeps up, drain returns at once: endless replies must not stop the loop.
        await asyncio.sleep(0)


async def _lines(pieces: AsyncIterator[tuple[bytes, bytes]]) -> AsyncIterator[bytes]:
    rest = b""
    async for _, content in pieces:
        rest += content
        while b"\n" in rest:
            line, _, rest = rest.partition(b"\n")
            yield line + b"\n"
    if rest:
        yield rest
