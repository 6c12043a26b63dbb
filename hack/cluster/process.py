"""Server processes: started tied to this process, or started for whoever comes later."""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hack.cluster.identity import Identity

_LAUNCHER = str(Path(__file__).with_name("launch.py"))
# The real interpreter: behind the name there may be a script that costs a fifth of a second.
_PYTHON = os.path.realpath(sys.executable)


def _new_starter() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="cluster-starter")


# The kernel's parent-death signal goes out when the *thread* that started a process ends. A
# cluster started by a short-lived thread would die with it, so one thread, which lives as long as
# this process, starts them all.
_starter = _new_starter()


def _after_fork() -> None:
    global _starter
    _starter = _new_starter()


os.register_at_fork(after_in_child=_after_fork)


class Process:
    """A started server: its log, its end, and whether it still runs."""

    def __init__(self, name: str, identity: Identity, log: Path) -> None:
        self.name = name
        self.identity = identity
        self.log = log
        self._exit: int | None = None

    @property
    def pid(self) -> int:
        """The process id."""
        return self.identity.pid

    def exit_code(self) -> int | None:
        """Return the exit code, negative for a signal; None while it runs."""
        if self._exit is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._exit = os.waitstatus_to_exitcode(status)
        return self._exit

    def end(self, number: signal.Signals = signal.SIGKILL, *, seconds: float = 30) -> None:
        """Signal it and wait for its end; kill it when it has not ended after `seconds`."""
        if self.exit_code() is not None:
            return
        if not self.identity.end(number, seconds=seconds):
            self.identity.end(signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        self._exit = os.waitstatus_to_exitcode(status)

    def log_tail(self, lines: int = 15) -> str:
        """Return the last lines of its log, for error messages."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])


def _launch(mode: Sequence[str], command: Sequence[str], log: Path, stdin: int | None) -> int:
    arguments = [_PYTHON, "-I", "-S", "-E", _LAUNCHER, *mode, *command]
    redirections: list[tuple[int, ...] | tuple[int, int, str, int, int]] = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
        if stdin is None
        else (os.POSIX_SPAWN_DUP2, stdin, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    return os.posix_spawn(_PYTHON, arguments, os.environ, file_actions=redirections)


def start_tied(name: str, command: Sequence[str], log: Path) -> Process:
    """Start a server that the kernel kills when this process ends, however it ends.

    `command[0]` is an absolute path. Both output streams are appended to `log`.
    """
    mode = ["tied", str(os.getpid())]
    pid = _starter.submit(_launch, mode, command, log, None).result()
    return Process(name, Identity.of(pid), log)


def start_detached(
    name: str, command: Sequence[str], log: Path, record: Callable[[Identity], None]
) -> Process:
    """Start a server that outlives this process, written down by `record` before it begins.

    Were this process killed in between, the server would never begin: none can run unrecorded.
    """
    reading, writing = os.pipe()
    try:
        process = Process(
            name, Identity.of(_launch(["detached"], command, log, stdin=reading)), log
        )
        record(process.identity)
        os.write(writing, b"!")
    finally:
        os.close(reading)
        os.close(writing)
    return process
