"""The last step: the shim's own modules, the launcher and the libraries become one file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from cni import bytecode
from cni.static.base import Base, find
from cni.static.errors import StaticError
from cni.static.executable import assemble
from cni.static.recipe import PYTHON


def ready() -> Base | None:
    """Return what can be linked now; None when it has to be compiled, or set up, first."""
    try:
        return find() if _running() == PYTHON else None
    except StaticError:  # without a compiler nothing was compiled
        return None


def link(base: Base, folder: Path, *, full_start: bool = False, first: str = "") -> Path:
    """Put `whereabouts` and `whereabouts.json` into a folder; return the executable's path.

    full_start: start Python by its public interface, which takes longer. first: source that runs
    before the shim's own. Raises StaticError.
    """
    if _running() != PYTHON:
        raise StaticError(
            f"bytecode of {_running()} does not run in the {PYTHON} that is linked in: run "
            f"`PYTHON={PYTHON} make setup` first"
        )
    folder.mkdir(parents=True, exist_ok=True)
    # On the same file system, so that the executable can be renamed into place.
    with tempfile.TemporaryDirectory(prefix=".link.", dir=folder) as name:
        work = Path(name)
        program = bytecode.made_by(Path(sys.executable), first)
        made = assemble(base.folder, program, work, full_start=full_start)
        _check(made)
        record = work / "record"
        record.write_text(json.dumps(base.record, indent=2) + "\n")
        record.replace(folder / "whereabouts.json")
        made.replace(folder / "whereabouts")
    return folder / "whereabouts"


def _running() -> str:
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def _check(made: Path) -> None:
    done = subprocess.run(
        [made], env={"CNI_COMMAND": "VERSION"}, input=b"{}", capture_output=True, check=False
    )
    if done.returncode != 0 or b"supportedVersions" not in done.stdout:
        shown = (done.stdout + done.stderr).decode(errors="replace").strip()
        raise StaticError(
            f"the executable just built does not answer VERSION (exit code {done.returncode}): "
            f"{shown or os.strerror(8)}"
        )
