"""Makes the executable that is Python itself: its core and the shim's modules in one file.

It needs a C compiler and what an interpreter's package for developers holds; `script` does without.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from cni.folder.interpreter import Interpreter

_LAUNCHER = Path(__file__).parents[1] / "launcher.c"
_TABLES = Path(__file__).with_name("tables.c")
_CFLAGS = ("-O2", "-fno-pie", "-DFOLDER")
# Python's modules find Python in the executable, and the dynamic linker their libraries beside it.
_LDFLAGS = (
    *("-no-pie", "-rdynamic", "-s", "-Wl,--build-id=none", "-Wl,--as-needed"),
    *("-Wl,--disable-new-dtags", "-Wl,-rpath,$ORIGIN/lib"),
)
# Are in the launcher's own table, for every start of Python needs them.
_OF_START = {"_signal", "_thread", "gc", "posix", "sys", "time"}


class NotLinkedError(Exception):
    """It cannot be made here; the text says what would help."""


def compiler() -> str | None:
    """Return the C compiler of this machine; None when there is none."""
    return shutil.which("gcc") or shutil.which("cc")


def lacking(parts: Interpreter) -> str:
    """Return what has to be installed first; empty when nothing has."""
    if compiler() is None:
        return "there is no C compiler: install gcc"
    absent = [path for path in (parts.include / "Python.h", parts.archive) if not path.is_file()]
    if absent:
        return (
            f"{absent[0]} is missing: install what belongs to Python {parts.version} for "
            f"developers (Debian, Ubuntu: libpython{parts.version}-dev)"
        )
    return ""


def lay_out(parts: Interpreter, program: bytes) -> dict[str, bytes]:
    """Return the executable, by its place in the folder.

    program: marshalled code, which finds the moment of its start as `start`, and as `folder` the
    folder of the executable with a slash at its end. Raises NotLinkedError.
    """
    if obstacle := lacking(parts):
        raise NotLinkedError(obstacle)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        (work / "program").write_bytes(program)
        (work / "bootstrap").write_bytes(parts.bootstrap)
        defined = [f'-DSHIM="{work}/program"', f'-DBOOTSTRAP="{work}/bootstrap"']
        built_in = " ".join(f"X({one})" for one in parts.built_in if one not in _OF_START)
        defined += [f"-DBUILT_IN(X)={built_in}", f"-I{parts.include}"]
        made = work / "whereabouts"
        inputs = [str(_LAUNCHER), str(_TABLES), *_required(parts), str(parts.archive)]
        _run(
            compiler() or "cc",
            *_CFLAGS,
            *defined,
            *_LDFLAGS,
            *inputs,
            *parts.flags,
            "-o",
            str(made),
        )
        return {made.name: made.read_bytes()}


def _required(parts: Interpreter) -> list[str]:
    """Return options that have everything linked in that the modules beside it ask Python for."""
    listing = _run("nm", "-DPu", *map(str, parts.extensions.values())) if parts.extensions else ""
    fields = [line.split() for line in listing.splitlines()]
    names = {field[0] for field in fields if field[1:2] == ["U"]}
    return [f"-Wl,--require-defined={name}" for name in sorted(names) if "Py" in name[:3]]


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise NotLinkedError(f"cannot run {command[0]}: {error.strerror}") from error
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-3:]
        raise NotLinkedError(f"{command[0]} failed: {' / '.join(last)}")
    return done.stdout
