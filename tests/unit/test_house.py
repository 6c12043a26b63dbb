"""The rules of the house that no linter knows."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LONGEST = 400
USUAL = 200
BANNED_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}


def tracked(*suffixes: str) -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    paths = [ROOT / name for name in listing.split("\0") if name.endswith(suffixes)]
    return [path for path in paths if path.is_file()]


def python_files() -> list[Path]:
    files = tracked(".py")
    assert len(files) > 20, "the listing of source files is broken"
    return files


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("path", python_files(), ids=lambda p: str(p.relative_to(ROOT)))
def test_no_source_file_holds_two_ideas(path: Path) -> None:
    assert lines(path) <= LONGEST, f"{path.relative_to(ROOT)} is two files: split it"


def test_most_source_files_are_short() -> None:
    product = [
        p for p in python_files() if p.relative_to(ROOT).parts[0] in {"whereabouts_fast", "cni"}
    ]
    long = [f"{p.relative_to(ROOT)} ({lines(p)})" for p in product if lines(p) > USUAL]
    assert len(long) * 4 <= len(product), f"more than a quarter is over {USUAL} lines: {long}"


def test_file_names_say_what_is_inside() -> None:
    vague = [
        p for p in python_files() if set(p.relative_to(ROOT).with_suffix("").parts) & BANNED_NAMES
    ]
    assert vague == []


def test_only_kube_uses_the_aiohttp_client() -> None:
    """The observability endpoints may serve with aiohttp.web; requests are kube's alone."""
    client_names = {"ClientSession", "request", "TCPConnector", "ClientTimeout", "client"}
    offenders = []
    for path in python_files():
        parts = path.relative_to(ROOT).parts
        if parts[0] != "whereabouts_fast" or parts[1] == "kube":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            attribute = (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "aiohttp"
                and node.attr in client_names
            )
            imported = (
                isinstance(node, ast.ImportFrom)
                and (node.module or "").split(".")[0] == "aiohttp"
                and (
                    "client" in (node.module or "")
                    or bool({alias.name for alias in node.names} & client_names)
                )
            )
            if attribute or imported:
                offenders.append(f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}")
    assert offenders == []
