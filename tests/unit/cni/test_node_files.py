"""The node's own files: flat file, name and kubeconfig, wherever they lie and however they look."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cni import files, kubeconfig, node
from cni.errors import CniError
from tests.unit.cni import hostile


def write(folder: Path, name: str, content: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def test_the_first_flat_file_counts_and_the_node_name_beside_it(tmp_path: Path) -> None:
    """Case T17: with and without a configuration_path in the configuration."""
    first, second = str(tmp_path / "a"), str(tmp_path / "b")
    write(tmp_path, "b/whereabouts.d/whereabouts.conf", '{"wait_seconds": 2}')
    write(tmp_path, "b/whereabouts.d/nodename", "n1.example.test\n")
    own = write(tmp_path, "own/w.conf", '{"wait_seconds": 3}')
    folders = (first, second)
    found = node.look({}, {}, lenient=False, folders=folders)
    assert found.defaults == {"wait_seconds": 2}
    assert found.name == "n1.example.test"
    assert found.host == os.uname().nodename
    assert found.host in found.identities
    assert found.name in found.identities
    asked: dict[str, object] = {"ipam": {"configuration_path": str(own)}}
    found = node.look(asked, {}, lenient=False, folders=folders)
    assert found.defaults == {"wait_seconds": 3}
    assert found.name == "n1.example.test"
    write(tmp_path, "own/nodename", "n2")
    assert node.look(asked, {}, lenient=False, folders=folders).name == "n2"
    environ = {"NODENAME": "n3"}
    assert node.look(asked, environ, lenient=False, folders=folders).name == "n3"


def test_without_any_file_the_host_name_counts(tmp_path: Path) -> None:
    found = node.look({}, {}, lenient=False, folders=(str(tmp_path),))
    assert (found.defaults, found.name, found.kubeconfig) == (None, os.uname().nodename, "")


def test_a_kubeconfig_beside_the_flat_file_needs_no_key(tmp_path: Path) -> None:
    write(tmp_path, "whereabouts.d/whereabouts.kubeconfig", "{}")
    found = node.look({}, {}, lenient=False, folders=(str(tmp_path),))
    assert found.kubeconfig == str(tmp_path / "whereabouts.d/whereabouts.kubeconfig")


@pytest.mark.parametrize("content", ["", "{", "[]", "nonsense"])
def test_a_broken_flat_file_stops_an_add_and_not_a_del(tmp_path: Path, content: str) -> None:
    path = write(tmp_path, "whereabouts.d/whereabouts.conf", content)
    with pytest.raises(CniError) as failure:
        node.look({}, {}, lenient=False, folders=(str(tmp_path),))
    assert failure.value.code == 7
    assert str(path) in failure.value.msg
    assert node.look({}, {}, lenient=True, folders=(str(tmp_path),)).defaults is None


@pytest.mark.parametrize("half", ["", '{"wait_sec', '{"wait_seconds": 7'])
def test_a_flat_file_read_while_it_is_written_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, half: str
) -> None:
    """Case T43: no crash on the torn file."""
    path = write(tmp_path, "whereabouts.d/whereabouts.conf", half)
    monkeypatch.setattr(files, "time", Finishing(path, '{"wait_seconds": 7}'))
    found = node.look({}, {}, lenient=False, folders=(str(tmp_path),))
    assert found.defaults == {"wait_seconds": 7}


def test_a_kubeconfig_read_while_it_is_written_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case T43, at every place where the writer may be."""
    whole = json.dumps(hostile.KUBECONFIG)
    for length in range(0, len(whole), 7):
        path = write(tmp_path, "kubeconfig", whole[:length])
        monkeypatch.setattr(files, "time", Finishing(path, whole))
        assert kubeconfig.load(str(path)).token == "t"


class Finishing:
    """A clock on which a writer comes to an end while somebody sleeps."""

    def __init__(self, path: Path, whole: str) -> None:
        self._path = path
        self._whole = whole

    def sleep(self, seconds: float) -> None:
        """Let the writer finish."""
        self._path.write_text(self._whole)
