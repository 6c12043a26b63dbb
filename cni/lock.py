"""The lock that keeps one node's processes in order, per network.

It is a file of its own that is never renamed or removed: a lock on a file that is replaced would
be held by two. Nobody sleeps or polls while holding it, and nobody holds two.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import fcntl
import posix

from cni import errors
from cni.deadline import Deadline
from cni.errors import CniError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType


class _TooLate(Exception):  # noqa: N818 - only ever seen inside this file
    pass


def _too_late(signum: int, frame: object) -> None:
    raise _TooLate


class Lock:
    """An exclusive lock between processes; released at the latest when its process ends.

    Where the file cannot be opened (no directory, disk full), the fallback file is locked, which
    is only read: the kubeconfig, which all shims of a node share.
    """

    __slots__ = ("_deadline", "_fallback", "_fd", "_path")

    def __init__(self, path: str, fallback: str, deadline: Deadline) -> None:
        self._path = path
        self._fallback = fallback
        self._deadline = deadline
        self._fd = -1

    def __enter__(self) -> Lock:
        """Wait for the lock; raises CniError 11 when the deadline passes first."""
        self._fd = self._open()
        try:
            if not self._take_at_once():
                self._wait()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        posix.close(self._fd)
        self._fd = -1

    def _open(self) -> int:
        if self._path:
            try:
                flags = posix.O_RDWR | posix.O_CREAT | posix.O_CLOEXEC | posix.O_NOFOLLOW
                return posix.open(self._path, flags, 0o600)
            except OSError:
                pass
        try:
            return posix.open(self._fallback, posix.O_RDONLY | posix.O_CLOEXEC)
        except OSError as error:
            raise CniError(
                errors.IO_FAILURE,
                f"neither {self._path or 'a lock'} nor {self._fallback} can be opened: "
                f"{error.strerror}",
                "hints_dir has to be a writable directory",
            ) from None

    def _take_at_once(self) -> bool:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _wait(self) -> None:
        # Blocking, so that the kernel wakes the next one: an alarm ends the wait.
        before = _signal.signal(_signal.SIGALRM, _too_late)
        try:
            _signal.setitimer(_signal.ITIMER_REAL, max(0.001, self._deadline.left()), 0.1)
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            _signal.setitimer(_signal.ITIMER_REAL, 0)
        except _TooLate:
            _signal.setitimer(_signal.ITIMER_REAL, 0)
            raise CniError(
                errors.TRY_AGAIN,
                "other calls for this network on this node took all the time there was",
                "raise add_deadline_seconds, or look why the API server answers slowly",
            ) from None
        finally:
            _signal.signal(_signal.SIGALRM, before)
