"""The cluster that stays: `up` and `down` from the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from hack.cluster.api import Api, JsonObject
from hack.cluster.identity import Identity
from hack.cluster.standing import StandingError, down, up
from whereabouts_fast.kube.resource import NADS, NODES

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "standing"
    yield folder
    down(folder)


def _command(verb: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "hack.cluster", verb, "--folder", str(folder)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _finished(command: subprocess.Popen[str]) -> str:
    stdout, stderr = command.communicate(timeout=120)
    assert command.returncode == 0, stderr
    return stdout


def _client(folder: Path) -> Api:
    config = yaml.safe_load((folder / "kubeconfig").read_text())
    cluster = config["clusters"][0]["cluster"]
    token = config["users"][0]["user"]["token"]
    return Api(cluster["server"], cluster["certificate-authority"], token)


def _identities(folder: Path) -> dict[str, Identity]:
    state: JsonObject = json.loads((folder / "state.json").read_text())
    return {name: Identity(**fields) for name, fields in state["processes"].items()}


def test_two_ups_at_once_make_one_cluster_which_outlives_them_until_down(folder: Path) -> None:
    first, second = _command("up", folder), _command("up", folder)
    outputs = {_finished(first), _finished(second)}
    assert outputs == {f"export KUBECONFIG={folder / 'kubeconfig'}\n"}
    identities = _identities(folder)
    assert set(identities) == {"etcd", "kube-apiserver"}
    with _client(folder) as api:
        assert api.list(NADS.path()) == []
        api.create(NODES.path(), {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
    _finished(_command("up", folder))
    assert _identities(folder) == identities
    assert oct((folder / "kubeconfig").stat().st_mode & 0o777) == "0o600"
    said = _finished(_command("down", folder))
    assert said.splitlines() == [
        f"ended {name} (pid {identities[name].pid})" for name in ("kube-apiserver", "etcd")
    ]
    assert not any(identity.alive() for identity in identities.values())
    assert [entry.name for entry in folder.iterdir()] == ["lock"]
    assert _finished(_command("down", folder)) == f"no cluster in {folder}\n"


def test_up_replaces_a_cluster_that_no_longer_runs_whole(folder: Path) -> None:
    up(folder)
    before = _identities(folder)
    assert before["etcd"].end()
    up(folder)
    after = _identities(folder)
    assert not before["kube-apiserver"].alive()
    assert all(identity.alive() for identity in after.values())
    with _client(folder) as api:
        assert api.list(NODES.path()) == []


def _write_state(folder: Path, processes: dict[str, Identity]) -> None:
    folder.mkdir()
    (folder / "lock").touch()
    state = {
        "server": "https://127.0.0.1:1",
        "complete": True,
        "processes": {name: vars(identity) for name, identity in processes.items()},
    }
    (folder / "state.json").write_text(json.dumps(state))


@pytest.mark.parametrize("difference", ["start time", "boot"])
def test_down_leaves_a_process_alone_that_only_has_the_pid(folder: Path, difference: str) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as stranger:
        real = Identity.of(stranger.pid)
        recorded = (
            Identity(real.pid, real.started - 1, real.boot)
            if difference == "start time"
            else Identity(real.pid, real.started, "another boot")
        )
        _write_state(folder, {"etcd": recorded})
        assert down(folder) == [f"etcd (pid {real.pid}) had ended already"]
        assert stranger.poll() is None
        assert not (folder / "state.json").exists()


def test_down_ends_a_cluster_that_was_only_half_started(folder: Path) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as server:
        _write_state(folder, {"etcd": Identity.of(server.pid)})
        assert down(folder) == [f"ended etcd (pid {server.pid})"]
        assert server.wait(30) < 0


def test_a_folder_of_others_is_neither_used_nor_emptied(tmp_path: Path) -> None:
    (tmp_path / "etcd").mkdir()
    (tmp_path / "kubeconfig").write_text("mine")
    with pytest.raises(StandingError, match="name an empty or new folder"):
        up(tmp_path)
    down(tmp_path)
    assert (tmp_path / "kubeconfig").read_text() == "mine"


def test_a_spoilt_record_is_named(folder: Path) -> None:
    _write_state(folder, {})
    for text in ("", "[]", '{"server": "", "complete": true, "processes": {"etcd": {}}}'):
        (folder / "state.json").write_text(text)
        with pytest.raises(StandingError, match=r"state\.json is not what `up` writes"):
            down(folder)
    (folder / "state.json").unlink()


def test_an_identity_of_nobody_cannot_be_made() -> None:
    with subprocess.Popen(["true"]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        # A zombie: it still has its pid, and runs no more.
        with pytest.raises(ProcessLookupError):
            Identity.of(ended.pid)
