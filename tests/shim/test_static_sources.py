"""Where the static build gets its sources, and when it finds them compiled already."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cni.static import base, commands, recipe
from cni.static.commands import Log
from cni.static.errors import StaticError
from cni.static.sources import SourceIndex

# A package of a folder on this disk: apt reads it as it would read Debian's archive.
SOURCES = """\
Package: {name}
Format: 3.0 (quilt)
Binary: {name}
Version: {version}
Files:
 {md5} {size} {name}_{version}.dsc
Checksums-Sha256:
 {sha256} {size} {name}_{version}.dsc
Directory: .
"""


def archive(folder: Path, *versions: str) -> Path:
    """An apt configuration folder whose only archive is on this disk and holds no file."""
    packages = folder / "archive"
    packages.mkdir(parents=True)
    records = [
        SOURCES.format(name="thing", version=one, md5="0" * 32, sha256="0" * 64, size=1)
        for one in versions
    ]
    (packages / "Sources").write_text("\n".join(records))
    machine = folder / "etc"
    machine.mkdir()
    (machine / "sources.list").write_text(f"deb [trusted=yes] file:{packages} ./\n")
    return machine


def test_versions_come_newest_first_by_debian_s_rules(tmp_path: Path) -> None:
    machine = archive(tmp_path, "3.9-1", "3.10-1", "3.10-1~deb12u1", "1:0.1-1")
    before = sorted(Path("/etc/apt").rglob("*"))
    index = SourceIndex(tmp_path / "state", machine)
    index.refresh()
    assert index.versions("thing") == ["1:0.1-1", "3.10-1", "3.10-1~deb12u1", "3.9-1"]
    assert sorted(Path("/etc/apt").rglob("*")) == before
    with pytest.raises(StaticError, match="no source package other"):
        index.versions("other")


def test_a_listed_version_that_cannot_be_fetched_is_an_error_with_its_log(tmp_path: Path) -> None:
    index = SourceIndex(tmp_path / "state", archive(tmp_path, "1.0-1"))
    index.refresh()
    with pytest.raises(StaticError, match=r"thing=1\.0-1 failed"):
        index.fetch("thing", "1.0-1", tmp_path, Log(tmp_path / "log"))
    assert "thing" in (tmp_path / "log").read_text()


def test_a_machine_that_has_built_lacks_nothing() -> None:
    assert commands.missing() == []


def made(environ: dict[str, str], name: str, age: int) -> Path:
    record = base._folder(environ) / f"{name}_{base._inputs()}" / "record.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps([{"name": name, "version": "1", "source": "x"}]))
    os.utime(record, (age, age))
    return record


def test_the_newest_complete_base_is_found_without_asking_anyone(tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    assert base.find(environ) is None
    made(environ, "old", 1000)
    made(environ, "new", 3000)
    made(environ, "middle", 2000)
    (base._folder(environ) / f"half_{base._inputs()}").mkdir()
    (base._folder(environ) / "foreign_0123").mkdir()
    found = base.find_or_make(environ)
    assert [entry["name"] for entry in found.record] == ["new"]


def test_another_recipe_finds_no_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    made(environ, "one", 1000)
    monkeypatch.setattr(recipe, "fingerprint", lambda: b"another")
    assert base.find(environ) is None
