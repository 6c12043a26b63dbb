"""The folder that needs no Python: what is in it, and what it is made of."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from cni import build
from cni.folder.elf import is_elf
from tests.shim import forms
from tests.shim.instruments import Observed
from tests.shim.test_bare_root import C_LIBRARY
from tests.shim.world import World, config, pod

pytestmark = pytest.mark.parametrize("form", [forms.FOLDER, forms.SCRIPT], indirect=True)

LARGEST = 20_000_000  # bytes


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_an_add_uses_nothing_of_the_machines_python(world: World, observed: Observed) -> None:
    """What a bare root shows as well, for those who may not enter one."""
    world.slices("n1")
    node = world.node("n1")
    node.shim = observed.executable
    assert node.add(pod(), config()).address == "10.40.0.1"
    home = str(observed.executable.parent)
    others = {path for path in observed.files() if not path.startswith((home, "["))}
    assert {path for path in others if not C_LIBRARY.fullmatch(Path(path).name)} == set()
    assert all(path.startswith(home) for path in observed.paths())


def test_two_builds_are_alike(form: str, tmp_path: Path) -> None:
    """Whatever else lives in the process that builds."""
    first, second = (forms.make(form, tmp_path / name) for name in ("1", "2"))
    assert len(files(first.parent)) == len(files(second.parent))
    for path in files(first.parent):
        assert path.read_bytes() == (second.parent / path.relative_to(first.parent)).read_bytes()


def test_it_is_small_and_holds_nothing_for_debuggers(shim: Path) -> None:
    contents = [path.read_bytes() for path in files(shim.parent)]
    assert sum(map(len, contents)) < LARGEST
    assert not any(b".debug_info" in content for content in contents)


def test_an_executable_without_its_folder_is_a_cni_error(shim: Path, tmp_path: Path) -> None:
    alone = tmp_path / "whereabouts"
    shutil.copy(shim, alone)
    done = subprocess.run(
        [alone], env={"CNI_COMMAND": "VERSION"}, input=b"{}", capture_output=True, check=False
    )
    assert done.returncode == 1
    failure = json.loads(done.stdout)
    assert failure["code"] == 999
    assert "all" in failure["details"]


def test_a_rebuild_replaces_each_file_whole(form: str, tmp_path: Path) -> None:
    """A call that started before keeps the files it has."""
    shim = forms.make(form, tmp_path)
    before = {path: path.stat().st_ino for path in files(tmp_path)}
    kept = [path.open("rb") for path in before]
    assert forms.make(form, tmp_path) == shim
    assert [path for path in files(tmp_path) if path.stat().st_ino == before[path]] == []
    for file in kept:
        file.close()


def test_without_a_compiler_it_is_a_script_and_says_why(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    shim = build.build(tmp_path)
    assert not is_elf(shim.read_bytes())
    assert "install gcc" in capfd.readouterr().err
