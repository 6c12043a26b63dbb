"""Becomes the server it is told to start, tied to its starter or let go by it.

Run as a script, without the site packages, in the short time between the start of a process and
its exec: `launch.py tied <starter's pid> <path> <argument>...` or
`launch.py detached <path> <argument>...`. A program of its own instead of a hook between fork and
exec, because such a hook would run Python in a copy of a process that may have many threads.
"""

import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def tie(starter: int) -> None:
    """Have the kernel kill this process when its starter ends (prctl(2), PR_SET_PDEATHSIG).

    Raises OSError when the kernel refuses, SystemExit when the starter is gone already.
    """
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), "prctl(PR_SET_PDEATHSIG)")
    # The starter may have died before the kernel knew of our wish: then nobody will tell us.
    if os.getppid() != starter:
        raise SystemExit("launch: the starter ended before the server began")


def wait_for_leave() -> None:
    """Return once the starter has written down this process; end with it if it died before that.

    Raises SystemExit when standard input ends without a byte.
    """
    if not os.read(0, 1):
        raise SystemExit("launch: the starter ended before it recorded the server")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)


def main(arguments: list[str]) -> None:
    """Replace this process by the server named by the arguments."""
    mode, *rest = arguments
    # A session of its own: Ctrl-C at the terminal must reach the tests, not their servers.
    os.setsid()
    if mode == "tied":
        tie(int(rest.pop(0)))
    else:
        wait_for_leave()
    os.execv(rest[0], rest)


if __name__ == "__main__":
    main(sys.argv[1:])
