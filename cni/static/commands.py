"""Runs the programs of a build, and has those that are missing installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from cni.static.errors import StaticError

# What a build calls, and the Debian package that has it.
PROGRAMS = {
    "gcc": "gcc",
    "make": "make",
    "perl": "perl",
    "patch": "patch",
    "xz": "xz-utils",
    "dpkg-source": "dpkg-dev",
}
_LIBC = "libc6-dev"
_SHOWN = 20  # lines of a failed command's output


def say(line: str) -> None:
    """Print a progress line."""
    sys.stderr.write(f"shim-static: {line}\n")
    sys.stderr.flush()


def output(*command: str | Path) -> str:
    """Return what a command prints. Raises StaticError when it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise StaticError(f"cannot run {command[0]}: {error.strerror}") from error
    if done.returncode != 0:
        raise StaticError(
            f"{_shown(command)} failed:\n{done.stderr.strip() or done.stdout.strip()}"
        )
    return done.stdout


class Log:
    """A file that takes the output of long commands; its end is shown when one fails."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def run(self, command: Sequence[str | Path], folder: Path) -> None:
        """Run a command in a folder. Raises StaticError with the last lines of its output."""
        with self.path.open("ab") as log:
            log.write(f"\n$ {_shown(command)}\n".encode())
            log.flush()
            try:
                done = subprocess.run(
                    command,
                    cwd=folder,
                    stdout=log,
                    stderr=log,
                    stdin=subprocess.DEVNULL,
                    check=False,
                )
            except OSError as error:
                raise StaticError(f"cannot run {command[0]}: {error.strerror}") from error
        if done.returncode != 0:
            lines = self.path.read_text(errors="replace").splitlines()[-_SHOWN:]
            raise StaticError(f"{_shown(command)} failed in {folder}:\n" + "\n".join(lines))


@contextmanager
def kept(log: Path, place: Path) -> Iterator[None]:
    """Save the log of a build that fails, whose own folder is removed."""
    try:
        yield
    except StaticError as error:
        if log.is_file():
            shutil.copy(log, place)
            raise StaticError(f"{error}\nAll of its output: {place}") from error
        raise


def missing(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the Debian packages that have to be installed first."""
    path = environ.get("PATH")
    absent = [pack for tool, pack in PROGRAMS.items() if shutil.which(tool, path=path) is None]
    if "gcc" in absent or not Path(output("gcc", "-print-file-name=libc.a").strip()).is_absolute():
        absent.append(_LIBC)
    return absent


def install_missing(environ: Mapping[str, str] = os.environ) -> None:
    """Install what is missing when we may. Raises StaticError naming the remedy."""
    absent = missing(environ)
    if not absent:
        return
    remedy = f"install what the static build needs: apt-get install {' '.join(absent)}"
    apt = shutil.which("apt-get", path=environ.get("PATH"))
    if apt is None or os.geteuid() != 0:
        raise StaticError(f"{remedy} (as root, on Debian 12)")
    say(f"installing {' '.join(absent)}")
    try:
        output(apt, "update", "-qq")
        output(apt, "install", "-y", "-qq", "--no-install-recommends", *absent)
    except StaticError as error:
        raise StaticError(f"{error}\n{remedy}") from error
    if absent := missing(environ):
        raise StaticError(f"{' '.join(absent)} installed, and yet not usable: look at PATH")


def _shown(command: Sequence[str | Path]) -> str:
    text = " ".join(map(str, command))
    return text if len(text) < 200 else text[:200] + " ..."
