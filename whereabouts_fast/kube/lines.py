"""A byte stream cut into lines, with a limit on the length of one."""


class LineLimitError(ValueError):
    """A line passed the limit before its end came."""


class LineSplitter:
    """Feed chunks as they arrive, get the whole lines so far; bytes in, bytes out.

    `limit` bounds what is kept for one unfinished line. aiohttp's own line reader stops at the
    size of its buffer, which one large object can pass.
    """

    __slots__ = ("_limit", "_parts", "_size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Lines that `chunk` completes, without their ends; blank lines are left out."""
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines and self._parts:
            # Pieces are joined once, when the end is there: a line in n chunks costs n, not n².
            self._parts.append(lines[0])
            lines[0] = b"".join(self._parts)
            self._parts.clear()
            self._size = 0
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
            if self._size > self._limit:
                raise LineLimitError(f"a line is longer than {self._limit} bytes")
        return [line for line in lines if line and not line.isspace()]
