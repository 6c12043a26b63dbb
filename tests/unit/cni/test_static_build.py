"""The static build before it calls apt or a compiler."""

from __future__ import annotations

from pathlib import Path

import pytest

from cni.static import commands
from cni.static.commands import Log
from cni.static.errors import StaticError
from cni.static.sources import SourceIndex, for_sources


@pytest.mark.parametrize(
    ("suffix", "text", "expected"),
    [
        (
            ".sources",
            "Types: deb\nURIs: http://a/b\nSuites: x\n\nTypes: deb deb-src\nEnabled: no\n",
            "Types: deb-src\nURIs: http://a/b\nSuites: x\n\nTypes: deb-src\nEnabled: no\n",
        ),
        (
            ".list",
            "# deb http://c d e\ndeb [signed-by=/k] http://a b c\n  deb  http://d e f\n"
            "deb-src http://g h i\n",
            "deb-src [signed-by=/k] http://a b c\ndeb-src http://d e f\n",
        ),
    ],
)
def test_a_file_of_package_sources_asks_for_sources_instead(
    suffix: str, text: str, expected: str
) -> None:
    assert for_sources(text, suffix) == expected


def test_a_machine_without_package_sources_is_told_where_they_belong(tmp_path: Path) -> None:
    with pytest.raises(StaticError, match="names no package sources"):
        SourceIndex(tmp_path / "state", tmp_path).refresh()


def test_missing_programs_are_named_as_packages(tmp_path: Path) -> None:
    assert set(commands.missing({"PATH": str(tmp_path)})) == {
        *commands.PROGRAMS.values(),
        "libc6-dev",
    }
    with pytest.raises(StaticError, match=r"apt-get install gcc make .*as root"):
        commands.install_missing({"PATH": str(tmp_path)})


def test_a_failed_command_shows_the_end_of_its_output(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.run(["true"], tmp_path)
    with pytest.raises(StaticError, match=r"sh -c .* failed in .*:\n(.*\n)*line 30\Z"):
        log.run(["sh", "-c", "seq -f 'line %g' 30; exit 3"], tmp_path)
    with pytest.raises(StaticError, match="cannot run /nonexistent"):
        commands.output("/nonexistent")
    assert commands.output("echo", "x") == "x\n"
