"""Marks that a DEL leaves before it does anything, for an ADD that outlives its caller.

One empty file per attachment, whose modification time is the moment of the DEL on the monotonic
clock: nothing has to be read, and a full disk has room for it. A mark is kept for twice the ADD's
deadline, after which no ADD that it concerns can still run.
"""

from __future__ import annotations

import posix
import time

from cni import hints

_FOLDER = "del"
_CREATE = posix.O_WRONLY | posix.O_CREAT | posix.O_CLOEXEC | posix.O_NOFOLLOW
_SWEEP_ABOVE = 64  # files; below that sweeping costs more than it frees


class Marks:
    """The marks in one hints directory; without a usable directory there are none."""

    __slots__ = ("_folder",)

    def __init__(self, hints_dir: str) -> None:
        self._folder = ""
        if hints.open_folder(hints_dir) and hints.open_folder(f"{hints_dir}/{_FOLDER}"):
            self._folder = f"{hints_dir}/{_FOLDER}"

    def leave(self, container_id: str, ifname: str, keep: float) -> None:
        """Mark an attachment as deleted now; sweep marks older than `keep` seconds."""
        if not self._folder:
            return
        path = self._path(container_id, ifname)
        temporary = f"{path}.{posix.getpid()}"
        now = time.monotonic_ns()
        try:
            posix.close(posix.open(temporary, _CREATE, 0o600))
            posix.utime(temporary, ns=(now, now))
            posix.rename(temporary, path)
            self._sweep(now, int(keep * 1e9))
        except OSError:
            pass

    def since(self, container_id: str, ifname: str, start: float) -> bool:
        """Tell whether a DEL for this attachment came at or after a moment (monotonic seconds)."""
        if not self._folder:
            return False
        try:
            stamp = posix.stat(self._path(container_id, ifname)).st_mtime_ns
        except OSError:
            return False
        # A later moment than now is from before a reboot.
        return int(start * 1e9) <= stamp <= time.monotonic_ns()

    def _path(self, container_id: str, ifname: str) -> str:
        return f"{self._folder}/{hints.file_name(container_id + ':' + ifname)}"

    def _sweep(self, now: int, keep: int) -> None:
        names = posix.listdir(self._folder)
        if len(names) <= _SWEEP_ABOVE:
            return
        for name in names:
            path = f"{self._folder}/{name}"
            stamp = posix.stat(path).st_mtime_ns
            if not now - keep <= stamp <= now:
                posix.unlink(path)
