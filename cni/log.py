"""Lines in the file that log_file names; without it nothing is logged.

Standard error is no place for it: some runtimes show it as part of a pod's failure.
"""

from __future__ import annotations

import posix
import time

from cni.errors import CniError
from cni.protocol import Request
from whereabouts_fast.ipam.netconf import NetConf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

# In the words that whereabouts' configurations use; the default is info.
_RANKS = {"panic": 0, "fatal": 0, "error": 1, "warn": 2, "warning": 2, "info": 3, "": 3}
_ERROR, _INFO = 1, 3


class Failures:
    """Logs the error that leaves its block; the runtime is told the same."""

    __slots__ = ("_conf", "_request")

    def __init__(self, conf: NetConf, request: Request) -> None:
        self._conf = conf
        self._request = request

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(failure, CniError):
            request = self._request
            whom = f" {request.container_id} {request.ifname}" if request.container_id else ""
            error(self._conf, f"{request.verb}{whom}: {failure.msg}")


def error(conf: NetConf, text: str) -> None:
    """Log what went wrong."""
    _write(conf, _ERROR, "error", text)


def info(conf: NetConf, text: str) -> None:
    """Log what somebody should know once."""
    _write(conf, _INFO, "info", text)


def _write(conf: NetConf, rank: int, level: str, text: str) -> None:
    if not conf.log_file or rank > _RANKS.get(conf.log_level, 9):
        return
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    line = f"{stamp} [{level}] {' '.join(text.split())}\n"
    flags = posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT | posix.O_NONBLOCK | posix.O_CLOEXEC
    try:
        fd = posix.open(conf.log_file, flags, 0o640)
        try:
            posix.write(fd, line.encode("utf-8", "replace"))
        finally:
            posix.close(fd)
    except OSError:
        pass  # a log that cannot be written stops nobody
