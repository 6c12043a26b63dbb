"""Whole-file reads and atomic writes by system calls."""

from __future__ import annotations

import posix
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    Content = TypeVar("Content")

# Without blocking: a pipe that lies where a file should would be waited for.
_PLAIN = posix.O_NONBLOCK | posix.O_CLOEXEC
_READ = posix.O_RDONLY | _PLAIN
_CREATE = posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC | posix.O_NOFOLLOW | _PLAIN
_TORN_TRIES = 4
_TORN_PAUSE = 0.05  # seconds


def read_all(fd: int, limit: int) -> bytes:
    """Read a descriptor to its end; raises OSError when there are more than `limit` bytes."""
    chunk = posix.read(fd, min(limit + 1, 65536))
    parts, size = [], 0
    while chunk:
        parts.append(chunk)
        size += len(chunk)
        if size > limit:
            raise OSError(27, f"more than {limit} bytes")  # EFBIG
        chunk = posix.read(fd, 65536)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def read(path: str, limit: int = 4 << 20) -> bytes:
    """Read a file whole; raises OSError."""
    fd = posix.open(path, _READ)
    try:
        return read_all(fd, limit)
    finally:
        posix.close(fd)


def settled(load: Callable[[], Content], torn: type[Exception]) -> Content:
    """Load a file that somebody may be writing, again while that raises `torn`.

    A writer that does not rename leaves a torn file for a moment.
    """
    for _ in range(_TORN_TRIES - 1):
        try:
            return load()
        except torn:
            time.sleep(_TORN_PAUSE)
    return load()


def write_all(fd: int, data: bytes) -> None:
    """Write all bytes to a descriptor; raises OSError."""
    view = memoryview(data)
    while view:
        view = view[posix.write(fd, view) :]


def replace(path: str, data: bytes) -> None:
    """Write a file whole, readable by its owner only, and rename it into place.

    A reader sees the old content or the new, never a part. The caller holds a lock: the temporary
    name is fixed, so that a writer that was killed leaves at most one such file. Raises OSError.
    """
    temporary = path + ".tmp"
    fd = posix.open(temporary, _CREATE, 0o600)
    try:
        write_all(fd, data)
    finally:
        posix.close(fd)
    posix.rename(temporary, path)
