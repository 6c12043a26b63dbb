"""Temporary folders that do not outlive a crash for long: the next start removes the ownerless."""

import os
import shutil
import tempfile
from pathlib import Path

from hack.cluster.locks import locked, try_lock

_LOCK = "owner.lock"


class TemporaryFolder:
    """A folder of this process; the lock on it ends with the process, however that ends."""

    def __init__(self, parent: Path | None = None) -> None:
        self._parent = parent or _default_parent()
        self._parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _require_own(self._parent)
        # Under one lock, or a sweep could remove a folder between its making and its locking.
        with locked(self._parent / "sweep.lock"):
            self._sweep()
            self.path = Path(tempfile.mkdtemp(prefix="cluster-", dir=self._parent))
            self._owner = try_lock(self.path / _LOCK)

    def remove(self) -> None:
        """Remove the folder and all in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._owner is not None:
            os.close(self._owner)
            self._owner = None

    def _sweep(self) -> None:
        for folder in self._parent.glob("cluster-*"):
            owner = try_lock(folder / _LOCK)
            if owner is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(owner)


def _default_parent() -> Path:
    return Path(tempfile.gettempdir()) / f"whereabouts-fast-{os.getuid()}"


def _require_own(folder: Path) -> None:
    owner = folder.stat().st_uid
    if owner != os.getuid():
        raise PermissionError(
            f"{folder} belongs to user {owner}, not to us: remove it, or set TMPDIR elsewhere"
        )
