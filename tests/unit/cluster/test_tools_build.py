"""Filling the tool cache: atomically, once, and with an explanation when it fails.

The Go tool is replaced by a script that leaves small programs: what is tested is all around it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hack.cluster.build import find_or_build
from hack.cluster.locks import locked
from hack.cluster.progress import Progress
from hack.cluster.tools import Tools, ToolsError, Versions, cache_folder

ROOT = Path(__file__).parents[3]

# Writes a program that knows its version to the file named after -o, and notes the call.
GOOD_GO = """#!/bin/sh
echo "$*" >> "$(dirname "$0")/calls"
pwd > "$(dirname "$0")/folder"
while [ "$1" != -o ]; do shift; done
echo "go: downloading something v1" >&2
echo "some/package" >&2
printf '#!/bin/sh\\necho version {version}\\n' > "$2"
chmod 755 "$2"
"""

FAILING_GO = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
echo half > "$2"
echo "some/package" >&2
echo "link: running gcc failed: cannot allocate memory" >&2
exit 1
"""


def _environ(folder: Path, script: str) -> dict[str, str]:
    path = folder / "bin"
    path.mkdir(exist_ok=True)
    go = path / "go"
    versions = Versions.wanted()
    go.write_text(script.replace("{version}", f"{versions.etcd} {versions.kubernetes}"))
    go.chmod(0o755)
    return {"PATH": f"{path}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(folder / "cache")}


def _names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}


def test_builds_both_programs_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    environ = _environ(tmp_path, GOOD_GO)
    versions = Versions.wanted()
    tools = find_or_build(environ)
    assert tools == Tools(cache_folder(environ) / versions.key)
    assert tools.missing() == []
    assert find_or_build(environ) == tools
    calls = (tmp_path / "bin" / "calls").read_text().splitlines()
    assert [call.split()[-1] for call in calls] == [
        "go.etcd.io/etcd/server/v3",
        "k8s.io/kubernetes/cmd/kube-apiserver",
    ]
    assert all("-trimpath -ldflags -s -w" in call for call in calls)
    assert f"-X k8s.io/component-base/version.gitVersion={versions.kubernetes}" in calls[1]
    assert (tmp_path / "bin" / "folder").read_text().strip() == str(ROOT / "hack" / "cluster")
    assert _names(cache_folder(environ)) == {versions.key, f"{versions.key}.lock"}
    shown = capfd.readouterr().err
    assert "tools: building etcd" in shown
    assert "tools: built kube-apiserver" in shown


def test_a_failed_build_leaves_nothing_and_says_why(tmp_path: Path) -> None:
    environ = _environ(tmp_path, FAILING_GO)
    with pytest.raises(ToolsError) as error:
        find_or_build(environ)
    message = str(error.value)
    assert "building etcd failed" in message
    assert "cannot allocate memory" in message
    assert "some/package" not in message
    assert "GOPROXY" in message
    assert _names(cache_folder(environ)) == {f"{Versions.wanted().key}.lock"}


def test_a_program_of_another_version_never_gets_into_the_cache(tmp_path: Path) -> None:
    environ = _environ(tmp_path, GOOD_GO.replace("{version}", "v0.0.0-master"))
    with pytest.raises(ToolsError, match=r"v0\.0\.0-master"):
        find_or_build(environ)
    assert _names(cache_folder(environ)) == {f"{Versions.wanted().key}.lock"}


def test_what_a_killed_builder_left_is_removed(tmp_path: Path) -> None:
    environ = _environ(tmp_path, GOOD_GO)
    key = Versions.wanted().key
    left = cache_folder(environ) / f".{key}.killed"
    left.mkdir(parents=True)
    (left / "etcd").write_text("half")
    find_or_build(environ)
    assert not left.exists()


def test_a_second_builder_waits_and_takes_what_the_first_has_built(tmp_path: Path) -> None:
    environ = _environ(tmp_path, GOOD_GO)
    cache = cache_folder(environ)
    cache.mkdir(parents=True)
    key = Versions.wanted().key
    with locked(cache / f"{key}.lock"):
        second = subprocess.Popen(
            [sys.executable, "-m", "hack.cluster", "tools"],
            cwd=ROOT,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert second.stderr is not None
        assert "another process is building" in second.stderr.readline()
        ours = cache / key
        ours.mkdir()
        for name in ("etcd", "kube-apiserver"):
            (ours / name).write_text("#!/bin/sh\n")
            (ours / name).chmod(0o755)
    printed, _ = second.communicate(timeout=60)
    assert (second.returncode, printed.strip()) == (0, str(ours))
    assert not (tmp_path / "bin" / "calls").exists()


def test_progress_tells_packages_downloads_and_errors_apart() -> None:
    said: list[str] = []
    progress = Progress("etcd", said.append)
    for line in ("go: downloading a v1", "a/b", "a/c", "# a/c", "x.go:1: wrong type"):
        progress.take(line)
    assert "1 modules downloaded, 2 packages compiled" in progress.line()
    assert progress.errors() == "# a/c\nx.go:1: wrong type"
