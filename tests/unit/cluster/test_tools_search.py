"""Where the cluster's programs are looked for, and what is said when they are nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from hack.cluster.build import find_or_build
from hack.cluster.tools import (
    Tools,
    ToolsError,
    Versions,
    cache_folder,
    find,
)


def _put_tools(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("etcd", "kube-apiserver"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return folder


def test_assets_win_over_the_cache(tmp_path: Path) -> None:
    assets = _put_tools(tmp_path / "assets")
    _put_tools(tmp_path / "whereabouts-fast" / "tools" / Versions.wanted().key)
    environ = {"KUBEBUILDER_ASSETS": str(assets), "XDG_CACHE_HOME": str(tmp_path)}
    assert find(environ) == Tools(assets)


def test_the_cache_is_used_without_assets(tmp_path: Path) -> None:
    cached = _put_tools(tmp_path / "whereabouts-fast" / "tools" / Versions.wanted().key)
    assert find_or_build({"XDG_CACHE_HOME": str(tmp_path), "PATH": ""}) == Tools(cached)


def test_tools_of_other_versions_in_the_cache_are_not_found(tmp_path: Path) -> None:
    key = Versions("v1.2.3", "v4.5.6").key
    assert key != Versions.wanted().key
    _put_tools(tmp_path / "whereabouts-fast" / "tools" / key)
    assert find({"XDG_CACHE_HOME": str(tmp_path)}) is None


def test_a_cache_folder_that_lacks_a_program_is_as_good_as_none(tmp_path: Path) -> None:
    cached = _put_tools(tmp_path / "whereabouts-fast" / "tools" / Versions.wanted().key)
    (cached / "etcd").unlink()
    assert find({"XDG_CACHE_HOME": str(tmp_path)}) is None


@pytest.mark.parametrize("fault", ["absent", "not executable", "no folder"])
def test_assets_without_both_programs_are_an_error(tmp_path: Path, fault: str) -> None:
    assets = _put_tools(tmp_path / "assets")
    if fault == "absent":
        (assets / "etcd").unlink()
    elif fault == "not executable":
        (assets / "etcd").chmod(0o644)
    else:
        assets = tmp_path / "elsewhere"
    with pytest.raises(ToolsError) as error:
        find({"KUBEBUILDER_ASSETS": str(assets), "XDG_CACHE_HOME": str(tmp_path)})
    message = str(error.value)
    assert f"KUBEBUILDER_ASSETS={assets} has no executable etcd" in message
    assert "unset KUBEBUILDER_ASSETS" in message


def test_the_cache_folder_follows_the_base_directory_rules() -> None:
    home = {"HOME": "/home/somebody"}
    default = Path("/home/somebody/.cache/whereabouts-fast/tools")
    assert cache_folder(home) == default
    assert cache_folder({**home, "XDG_CACHE_HOME": ""}) == default
    assert cache_folder({**home, "XDG_CACHE_HOME": "relative"}) == default
    assert cache_folder({**home, "XDG_CACHE_HOME": "/big"}) == Path("/big/whereabouts-fast/tools")


def test_without_go_the_error_names_the_remedies(tmp_path: Path) -> None:
    with pytest.raises(ToolsError) as error:
        find_or_build({"XDG_CACHE_HOME": str(tmp_path), "PATH": str(tmp_path)})
    message = str(error.value)
    assert Versions.wanted().kubernetes in message
    assert "install Go" in message
    assert "set KUBEBUILDER_ASSETS" in message


def test_a_cache_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "go").write_text("")
    (tmp_path / "go").chmod(0o755)
    (tmp_path / "file").write_text("")
    with pytest.raises(ToolsError, match="set XDG_CACHE_HOME"):
        find_or_build({"XDG_CACHE_HOME": str(tmp_path / "file"), "PATH": str(tmp_path)})
