"""Caches the compiled Python and OpenSSL, which do not depend on the shim's own source."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from cni.static import recipe
from cni.static.commands import Log, install_missing, kept, output, say
from cni.static.errors import StaticError
from cni.static.sources import SourceIndex
from cni.static.training import train
from hack.cluster.locks import locked
from hack.cluster.tools import cache_folder

_RECORD = "record.json"


@dataclass(frozen=True)
class Base:
    """A folder with libraries, headers and the record of what they were made of."""

    folder: Path

    @property
    def record(self) -> list[dict[str, str]]:
        """What is linked in: name, version, and source as a package URL."""
        record: list[dict[str, str]] = json.loads((self.folder / _RECORD).read_text())
        return record


def find(environ: Mapping[str, str] = os.environ) -> Base | None:
    """Return the newest base that was made by this recipe and compiler; None when there is none.

    Raises StaticError.
    """
    folder = _folder(environ)
    records = [*folder.glob(f"*_{_inputs()}/{_RECORD}")] if folder.is_dir() else []
    newest = max(records, key=lambda path: path.stat().st_mtime, default=None)
    return None if newest is None else Base(newest.parent)


def find_or_make(environ: Mapping[str, str] = os.environ, *, update: bool = False) -> Base:
    """Return a base, made anew when there is none or, with `update`, when its sources are outdated.

    A second builder waits for the first. Raises StaticError.
    """
    install_missing(environ)
    found = find(environ)
    if found is not None and not update:
        return found
    folder = _folder(environ)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StaticError(
            f"cannot make the cache {folder} ({error.strerror}): set XDG_CACHE_HOME to a folder "
            "that can be written"
        ) from error
    with locked(folder / "lock", lambda: say("another process is building, waiting for it")):
        found = find(environ)
        if found is not None and not update:
            return found
        # We hold the lock, so these are what killed builders left.
        for left in folder.glob(".filling.*"):
            shutil.rmtree(left, ignore_errors=True)
        return _make(folder)


def _make(folder: Path) -> Base:
    index = SourceIndex(folder / "apt")
    index.refresh()
    filling = Path(tempfile.mkdtemp(prefix=".filling.", dir=folder))
    try:
        log = Log(filling / "log")
        with kept(log.path, folder / "failed.log"):
            return _fill(folder, filling, index, log)
    finally:
        shutil.rmtree(filling, ignore_errors=True)


def _fill(folder: Path, filling: Path, index: SourceIndex, log: Log) -> Base:
    work = filling / "work"
    work.mkdir()
    sources, versions = {}, {}
    for package in (recipe.PYTHON, recipe.OPENSSL):
        versions[package], sources[package] = _newest(index, package, work, log)
    name = "_".join([*(f"{p}-{v}" for p, v in versions.items()), _inputs()])
    target = folder / name.replace("/", "-")
    if (target / _RECORD).is_file():
        return Base(target)
    python, openssl, build = sources[recipe.PYTHON], sources[recipe.OPENSSL], work / "build"
    recipe.compile_openssl(openssl, log)
    recipe.configure_python(python, openssl, build, log)
    recipe.compile_instrumented(build, log)
    recipe.compile_tables(python, build, log)
    trial = work / "trial"
    trial.mkdir()
    recipe.gather(python, openssl, build, trial)
    train(trial, build, trial)
    recipe.compile_trained(build, log)
    recipe.compile_tables(python, build, log)
    recipe.gather(python, openssl, build, filling)
    shutil.rmtree(work)
    (filling / _RECORD).write_text(json.dumps(_record(versions), indent=2) + "\n")
    filling.chmod(0o755)
    shutil.rmtree(target, ignore_errors=True)
    filling.rename(target)
    say(f"Python and OpenSSL are ready in {target}")
    return Base(target)


def _newest(index: SourceIndex, package: str, work: Path, log: Log) -> tuple[str, Path]:
    """Return version and folder of the newest source that can be had.

    An archive's mirror may list what it does not have yet.
    """
    trouble: StaticError | None = None
    for version in index.versions(package):
        try:
            folder = index.fetch(package, version, work, log)
        except StaticError as error:
            say(f"{package} {version} is listed but cannot be fetched: trying an older one")
            trouble = error
            continue
        say(f"fetched the source of {package} {version}")
        return version, folder
    raise StaticError(
        f"no listed version of the source package {package} can be fetched; is the Debian archive "
        f"reachable?\n{trouble}"
    )


def _record(versions: Mapping[str, str]) -> list[dict[str, str]]:
    entries = dict(versions)
    shown = "${source:Package} ${source:Version}"
    # Its start files and libgcc.a are linked in as well.
    for package in ("libc6-dev", f"libgcc-{_compiler().partition('.')[0]}-dev"):
        source, _, version = output("dpkg-query", "-W", "-f", shown, package).strip().partition(" ")
        entries[source] = version
    return [
        {
            "name": name,
            "version": version,
            "source": f"pkg:deb/debian/{quote(name)}@{quote(version)}?arch=source",
        }
        for name, version in entries.items()
    ]


def _folder(environ: Mapping[str, str]) -> Path:
    return cache_folder(environ).parent / "static"


def _compiler() -> str:
    return output("gcc", "-dumpfullversion").strip()


def _inputs() -> str:
    """Return a digest of all that a base depends on beside the versions of its sources."""
    libc = output("dpkg-query", "-W", "-f", "${Version}", "libc6-dev")
    parts = [recipe.fingerprint(), _compiler().encode(), libc.encode(), os.uname().machine.encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
