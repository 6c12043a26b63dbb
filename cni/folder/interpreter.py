"""Finds out what an interpreter is made of, as far as the shim needs it."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cni import bytecode
from cni.folder.elf import Elf, is_elf

_PROBE = Path(__file__).with_name("probe.py")

# Fits the kernel and its own parts only: each machine has one.
_C_LIBRARY = re.compile(
    r"(ld|ld-linux\S*|libc|libm|libmvec|libdl|libpthread|librt|libutil|libresolv|libanl|libnss_\S+)"
    r"(-[0-9.]+)?\.so(\.\d+)*"
)


@dataclass(frozen=True)
class Interpreter:
    """An interpreter's real file and its parts.

    extensions: the shim's modules that are files of their own. built_in: the names of those that
    are not. bootstrap: the frozen module that core-only start needs, marshalled. header: of a file
    of bytecode. at_start: files of bytecode that its whole start reads. archive, include, flags:
    what links it, where that is installed. libraries: what it and its extensions run on, by name.
    """

    executable: Path
    version: str
    extensions: dict[str, Path]
    built_in: list[str]
    bootstrap: bytes
    header: bytes
    at_start: dict[str, bytes]
    archive: Path
    include: Path
    flags: list[str]
    libraries: dict[str, Path]

    @property
    def library(self) -> str:
        """Where its own library is, in a folder that it was copied to."""
        return f"lib/python{self.version}"

    def needed_by(self, *files: bytes) -> dict[str, Path]:
        """Return the libraries, by name, that those of the files that are linked need."""
        found: dict[str, Path] = {}
        waiting = [file for file in files if is_elf(file)]
        while waiting:
            for name in Elf(waiting.pop()).needed:
                if name in self.libraries and name not in found:
                    found[name] = self.libraries[name]
                    waiting.append(found[name].read_bytes())
        return found


def examine(executable: Path) -> Interpreter:
    """Look at an interpreter. Raises OSError when it does not run."""
    foreign = bytecode.foreign()
    done = subprocess.run(
        [executable, "-ISE", _PROBE, *foreign], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise OSError(f"{executable} does not say what it is made of: {done.stderr.strip()}")
    found: dict[str, Any] = json.loads(done.stdout)
    extensions = {name: Path(path) for name, path in sorted(found["extensions"].items())}
    paths = [Path(path) for path in found["mapped"]]
    return Interpreter(
        executable=executable,
        version=found["version"],
        extensions=extensions,
        built_in=[name for name in found["built_in"] if name in foreign],
        bootstrap=bytes.fromhex(found["bootstrap"]),
        header=bytes.fromhex(found["header"]),
        at_start={name: bytes.fromhex(code) for name, code in found["at_start"].items()},
        archive=Path(found["archive"]),
        include=Path(found["include"]),
        # Where the interpreter looks for its own libraries is nothing to us.
        flags=[flag for flag in found["flags"].split() if "-rpath" not in flag],
        libraries={
            Elf(path.read_bytes()).soname or path.name: path
            for path in paths
            if path not in {executable, *extensions.values()}
            and not _C_LIBRARY.fullmatch(path.name)
        },
    )
