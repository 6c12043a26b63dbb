"""Shims with a few lines before their own, which show what a call does from within."""

from __future__ import annotations

from pathlib import Path

from tests.shim import forms

# Leaving is where a call is over.
_LEAVING = """
import posix, sys
def note(name, lines):
    fd = posix.open({folder!r} + name, posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC)
    for line in lines:
        posix.write(fd, (line + "\\n").encode())
    posix.close(fd)
def leave(code, leave=posix._exit):
    sys.settrace(None)
    at_end()
    leave(code)
posix._exit = leave
"""

_OBSERVED = """
before = set(sys.modules)
def at_end():
    note("modules", [name for name in sys.modules if name not in before])
    note("paths", getattr(sys, "path", ()))
    fd = posix.open("/proc/self/maps", posix.O_RDONLY)
    maps = b""
    while part := posix.read(fd, 65536):
        maps += part
    note("maps", maps.decode().splitlines())
"""

_TRACED = """
fd = posix.open({folder!r} + "die-at", posix.O_RDONLY)
die_at = int(posix.read(fd, 20))
posix.close(fd)
passed = 0
def trace(frame, event, argument):
    global passed
    if event == "line":
        passed += 1
        if passed == die_at:
            posix.kill(posix.getpid(), 9)
    return trace
def at_end():
    note("passed", [str(passed)])
sys.settrace(trace)
"""


class _Instrument:
    def __init__(self, form: str, folder: Path, own: str) -> None:
        self._folder = folder
        text = (_LEAVING + own).format(folder=f"{folder}/")
        self.executable = forms.make(form, folder / "built", text)

    def _noted(self, name: str) -> list[str]:
        return (self._folder / name).read_text().splitlines()


class Observed(_Instrument):
    """Tells what the last call of `executable` had loaded when it ended."""

    def __init__(self, form: str, folder: Path) -> None:
        super().__init__(form, folder, _OBSERVED)

    def modules(self) -> set[str]:
        """Return the modules that were imported after the interpreter's start."""
        return set(self._noted("modules"))

    def files(self) -> set[str]:
        """Return the files of which code was mapped."""
        fields = [line.split(None, 5) for line in self._noted("maps")]
        return {field[5] for field in fields if len(field) == 6 and "x" in field[1]}

    def paths(self) -> list[str]:
        """Return where modules would have been looked for."""
        return self._noted("paths")


class Traced(_Instrument):
    """Dies at a line of `executable`, or tells how many lines a whole call has."""

    def __init__(self, form: str, folder: Path) -> None:
        self._at = folder / "die-at"
        self.die_at(0)
        super().__init__(form, folder, _TRACED)

    def die_at(self, line: int) -> None:
        """Have the next calls kill themselves at a line; 0 is none."""
        self._at.write_text(str(line))

    def passed(self) -> int:
        """Return how many lines the last call that came to its end had."""
        return int(self._noted("passed")[0])
