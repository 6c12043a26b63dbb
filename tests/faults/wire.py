"""Just enough HTTP/1.1 for a proxy that must see messages and keep their bytes as they came."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

HEAD_LIMIT = 1 << 20


@dataclass(frozen=True)
class Head:
    """First line and headers of a message; names in lower case, `raw` as it came."""

    first: str
    headers: dict[str, str]
    raw: bytes

    @property
    def length(self) -> int | None:
        """The announced body length in bytes; None when not announced."""
        value = self.headers.get("content-length")
        return None if value is None else int(value)

    @property
    def chunked(self) -> bool:
        """Whether the body comes in chunks (RFC 9112, section 7.1)."""
        return self.headers.get("transfer-encoding", "").lower() == "chunked"


@dataclass
class Reply:
    """A whole reply: status, headers, body without its framing, and the bytes as they came."""

    status: int
    headers: dict[str, str]
    body: bytes = b""
    raw: bytes = field(default=b"", repr=False)


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """Read a message's head; None when the peer ended the connection before one began."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise ConnectionError("connection ended inside a message head") from error
        return None
    first, *lines = raw.decode("latin-1").rstrip("\r\n").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return Head(first, {name.strip().lower(): value.strip() for name, _, value in pairs}, raw)


async def body_pieces(
    reader: asyncio.StreamReader, head: Head, *, has_body: bool = True, until_close: bool = False
) -> AsyncIterator[tuple[bytes, bytes]]:
    """Yield a body as pairs (raw bytes with framing, content), as they arrive.

    until_close: a message without announced length ends with the connection (replies only).
    """
    if not has_body:
        return
    if head.chunked:
        while True:
            size_line = await reader.readuntil(b"\r\n")
            size = int(size_line.split(b";")[0], 16)
            content = await reader.readexactly(size + 2)
            yield size_line + content, content[:-2]
            if size == 0:
                return
    elif head.length is not None:
        left = head.length
        while left:
            content = await reader.read(min(left, 1 << 16))
            if not content:
                raise ConnectionError("connection ended inside a message body")
            left -= len(content)
            yield content, content
    elif until_close:
        while content := await reader.read(1 << 16):
            yield content, content


def status_of(head: Head) -> int:
    """Return the status code of a reply's head."""
    return int(head.first.split(" ", 2)[1])


def encode_reply(status: int, headers: dict[str, str], body: bytes) -> bytes:
    """Return a whole reply as bytes, its length announced."""
    lines = [f"HTTP/1.1 {status} Injected"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body
