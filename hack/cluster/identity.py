"""Which process a number means: pid, start time and boot together name one process for ever."""

import os
import select
import signal
from dataclasses import dataclass
from pathlib import Path


def boot_id() -> str:
    """Return the kernel's identity of this boot: start times count from it."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_ticks(pid: int) -> int | None:
    """Return when the process started, in clock ticks since boot; None when there is none.

    Source: proc(5), field 22 of /proc/<pid>/stat. A zombie has ended and counts as none.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the program's name in brackets and may itself hold spaces and brackets.
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in ("Z", "X") else int(fields[19])


@dataclass(frozen=True)
class Identity:
    """One process of this machine."""

    pid: int
    started: int
    boot: str

    @classmethod
    def of(cls, pid: int) -> "Identity":
        """Name the running process `pid`. Raises ProcessLookupError when there is none."""
        started = start_ticks(pid)
        if started is None:
            raise ProcessLookupError(f"no process {pid}")
        return cls(pid, started, boot_id())

    def alive(self) -> bool:
        """Tell whether exactly this process is still running."""
        return self.boot == boot_id() and start_ticks(self.pid) == self.started

    def end(self, number: signal.Signals = signal.SIGKILL, *, seconds: float = 10) -> bool:
        """Signal exactly this process and wait for its end; True when it is gone.

        False when it still runs after `seconds`. A process that has the same pid by chance is
        never touched: the handle is opened first, and only then is the start time compared.
        """
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return True
        try:
            if not self.alive():
                return True
            signal.pidfd_send_signal(handle, number)
            return wait_for_exit(handle, seconds)
        except ProcessLookupError:
            return True
        finally:
            os.close(handle)


def wait_for_exit(handle: int, seconds: float) -> bool:
    """Wait for the end of the process behind a pidfd; False after `seconds`."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
