"""Packages the shim: `python -m cni.build FOLDER` puts an executable FOLDER/whereabouts there.

The folder may be moved, linked to, and copied to machines without Python. Where there is a C
compiler and the interpreter can be linked, the executable is Python itself; else it is a script
that starts a copy of the interpreter.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from cni import bytecode
from cni.folder import linked, script
from cni.folder.elf import Elf
from cni.folder.interpreter import Interpreter, examine
from cni.folder.linked import NotLinkedError

_NAME = "whereabouts"
_EXECUTABLES = {_NAME, "lib/python"}

# Goes before the shim's modules: those of Python that are files are loaded without a search.
_EXTENSIONS = """\
import sys, _imp
class Extensions:
    Spec = type(sys.__spec__)
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in extensions:
            return Extensions.Spec(name, Extensions, origin=folder + extensions[name])
    create_module = _imp.create_dynamic
    exec_module = _imp.exec_dynamic
sys.meta_path.insert(0, Extensions)
"""


def interpreter() -> Path:
    """Return the real file behind the running interpreter, past links and virtual environment."""
    base = getattr(sys, "_base_executable", "") or sys.executable
    return Path(base).resolve()


def build(
    folder: Path, python: Path | None = None, *, link: bool | None = None, first: str = ""
) -> Path:
    """Fill a folder with the shim and return the executable's path.

    python: the interpreter to take (default: the running one). link: whether the executable must
    be, or must not be, Python itself (default: where that can be). first: source that runs before
    the shim's own. Each file is put in place whole, the executable last; nothing is removed.
    Raises OSError, and NotLinkedError when it must be linked.
    """
    parts = examine(python or interpreter())
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".build.", dir=folder) as name:
        made = Path(name)
        if link is False or not _linked(made, parts, first, must=link is True):
            program = _program(parts, first, script.PROLOGUE)
            _put(made, parts, script.lay_out(parts, program))
            if trouble := _trouble(made / _NAME):
                raise OSError(f"what was built does not answer VERSION: {trouble}")
        # The executable last: what it needs is there when it is.
        for path in sorted(made.rglob("*"), key=lambda path: path == made / _NAME):
            place = folder / path.relative_to(made)
            if path.is_dir():
                place.mkdir(exist_ok=True)
            else:
                path.replace(place)
    return folder / _NAME


def _linked(folder: Path, parts: Interpreter, first: str, *, must: bool) -> bool:
    """Fill the folder and return true, or say why not."""
    try:
        _put(folder, parts, linked.lay_out(parts, _program(parts, first)))
        if trouble := _trouble(folder / _NAME):
            raise NotLinkedError(f"linked, it does not answer VERSION: {trouble}")
    except NotLinkedError as error:
        if must:
            raise
        sys.stderr.write(f"shim: the executable is a script, which starts later, for {error}\n")
        return False
    return True


def _program(parts: Interpreter, first: str, prologue: str = "") -> bytes:
    places = {name: _place(parts, path) for name, path in parts.extensions.items()}
    source = f"{prologue}\nextensions = {places!r}\n{_EXTENSIONS}\n{first}"
    return bytecode.made_by(parts.executable, source)


def _place(parts: Interpreter, extension: Path) -> str:
    return f"{parts.library}/lib-dynload/{extension.name}"


def _put(folder: Path, parts: Interpreter, files: dict[str, bytes]) -> None:
    """Write these files, Python's modules, and the libraries that all of them need."""
    modules = {_place(parts, path): path.read_bytes() for path in parts.extensions.values()}
    libraries = parts.needed_by(*files.values(), *modules.values())
    found = {f"lib/{name}": path.read_bytes() for name, path in libraries.items()}
    moved = {place: Elf(data).movable() for place, data in {**modules, **found}.items()}
    for place, data in {**files, **moved}.items():
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o755 if place in _EXECUTABLES else 0o644)


def _trouble(executable: Path) -> str:
    """Return why it does not answer VERSION; empty when it does."""
    done = subprocess.run(
        [executable], env={"CNI_COMMAND": "VERSION"}, input=b"{}", capture_output=True, check=False
    )
    if done.returncode == 0 and b"supportedVersions" in done.stdout:
        return ""
    shown = (done.stdout + done.stderr).decode(errors="replace").strip()
    return f"exit code {done.returncode}, {shown or 'no output'}"


def main(arguments: list[str]) -> int:
    """Build into the folder that is named; return the exit code."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m cni.build FOLDER\n")
        return 2
    path = build(Path(arguments[0]))
    size = sum(file.stat().st_size for file in path.parent.rglob("*") if file.is_file())
    sys.stdout.write(f"{path}: {size / 1e6:.1f} MB with its folder, of {interpreter()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
