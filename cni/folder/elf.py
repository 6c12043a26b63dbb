"""Reads and rewrites shared objects and executables as far as moving them to a folder needs it."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_LOAD, _DYNAMIC = 1, 2  # kinds of segments
_END, _NEEDED, _STRINGS, _SONAME, _RPATH, _RUNPATH = 0, 1, 5, 14, 15, 29  # tags
_ENTRY = struct.Struct("<qQ")  # of the dynamic section: tag and value
_SEGMENT = struct.Struct("<IIQQQQQQ")  # kind, flags, offset, address, -, size, -, -
_HEADER = 64


def is_elf(data: bytes) -> bool:
    """Whether these are the bytes of a file that `Elf` reads."""
    return data[:6] == b"\x7fELF\x02\x01"


class Elf:
    """One file of a 64-bit, little-endian machine. Raises ValueError for any other."""

    def __init__(self, data: bytes) -> None:
        if not is_elf(data):
            raise ValueError("not an ELF file of a 64-bit, little-endian machine")
        self._data = data
        (start,) = struct.unpack_from("<Q", data, 32)
        size, count = struct.unpack_from("<HH", data, 54)
        self._segments = [
            _SEGMENT.unpack_from(data, start + index * size) for index in range(count)
        ]

    @property
    def needed(self) -> list[str]:
        """The names of the libraries that it is linked to."""
        return self._names(_NEEDED)

    @property
    def soname(self) -> str:
        """The name that others know it by; empty when it has none."""
        return "".join(self._names(_SONAME))

    def movable(self) -> bytes:
        """Return it without what only debuggers read and without its own ideas where to search.

        With those, the dynamic linker would not ask the executable where the libraries are.
        """
        end = max(offset + size for _, _, offset, _, _, size, _, _ in self._segments)
        data = bytearray(self._data[: max(end, _HEADER)])
        struct.pack_into("<Q", data, 40, 0)  # the table of sections, which lay behind that
        struct.pack_into("<HH", data, 60, 0, 0)
        entries = list(self._entries())
        kept = [entry for _, *entry in entries if entry[0] not in (_RPATH, _RUNPATH)]
        kept += [[_END, 0]] * (len(entries) - len(kept))
        for (position, _, _), (tag, value) in zip(entries, kept, strict=True):
            _ENTRY.pack_into(data, position, tag, value)
        return bytes(data)

    def _entries(self) -> Iterator[tuple[int, int, int]]:
        """Yield position, tag and value of what the dynamic section says."""
        for kind, _, offset, _, _, size, _, _ in self._segments:
            if kind == _DYNAMIC:
                for position in range(offset, offset + size, _ENTRY.size):
                    tag, value = _ENTRY.unpack_from(self._data, position)
                    if tag == _END:
                        return
                    yield position, tag, value

    def _names(self, wanted: int) -> list[str]:
        found = [(tag, value) for _, tag, value in self._entries()]
        texts = [self._offset(value) for tag, value in found if tag == _STRINGS]
        starts = [texts[0] + value for tag, value in found if tag == wanted]
        return [self._data[at : self._data.index(0, at)].decode() for at in starts]

    def _offset(self, address: int) -> int:
        for kind, _, offset, start, _, size, _, _ in self._segments:
            if kind == _LOAD and start <= address < start + size:
                return int(offset + address - start)
        raise ValueError("not an ELF file: its dynamic section points outside it")
