"""Shared objects that shall be found elsewhere than where they were installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from cni import build
from cni.folder.elf import Elf
from cni.folder.interpreter import examine

RPATH, RUNPATH = 15, 29


def tags(data: bytes) -> set[int]:
    return {tag for _, tag, _ in Elf(data)._entries()}


def test_what_is_moved_keeps_its_name_and_needs_and_loses_search_paths_and_sections() -> None:
    parts = examine(build.interpreter())
    files = [parts.executable, *parts.extensions.values(), *parts.libraries.values()]
    for file in files:
        moved = Elf(file.read_bytes()).movable()
        assert Elf(moved).needed == Elf(file.read_bytes()).needed
        assert Elf(moved).soname == Elf(file.read_bytes()).soname
        assert not tags(moved) & {RPATH, RUNPATH}
        assert len(moved) <= file.stat().st_size
        assert moved[40:48] == bytes(8)


def test_moving_twice_changes_nothing_more() -> None:
    moved = Elf(build.interpreter().read_bytes()).movable()
    assert Elf(moved).movable() == moved


@pytest.mark.parametrize("data", [b"", b"#!/bin/sh\n", b"\x7fELF\x01\x01" + bytes(64)])
def test_what_is_no_such_file_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not an ELF file"):
        Elf(data)


def test_an_interpreter_that_does_not_run_is_named(tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho broken >&2\nexit 1\n")
    fake.chmod(0o755)
    with pytest.raises(OSError, match="python does not say what it is made of: broken"):
        examine(fake)
