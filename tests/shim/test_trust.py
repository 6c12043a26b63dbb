"""Whom the shim trusts, and how it says who it is."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from hack.cluster.server import Cluster
from tests.shim.world import World, config, pod


def changed(cluster: Cluster, path: Path, part: str, **changes: Any) -> Path:
    """A kubeconfig of the cluster whose cluster or user entry is changed; None removes a key."""
    whole = json.loads(cluster.kubeconfig_for(path=path).read_text())
    section = whole[part + "s"][0][part]
    section.update(changes)
    for key in [key for key, value in section.items() if value is None]:
        del section[key]
    path.write_text(json.dumps(whole))
    return path


def test_a_server_is_known_by_authority_name_and_address(
    world: World, cluster: Cluster, tmp_path: Path
) -> None:
    world.slices("n1")
    other = cluster.issue_certificate("nobody").certificate
    ca = base64.b64encode(Path(cluster.ca_file).read_bytes()).decode()
    server = cluster.server.replace("127.0.0.1", "localhost")
    cases: list[tuple[dict[str, Any], bool]] = [
        ({}, True),
        ({"certificate-authority": None, "certificate-authority-data": ca}, True),
        ({"tls-server-name": "localhost"}, True),
        ({"server": server}, True),
        ({"insecure-skip-tls-verify": True, "certificate-authority": None}, True),
        ({"certificate-authority": str(other)}, False),
        ({"tls-server-name": "other.test"}, False),
        ({"tls-server-name": "127.0.0.2"}, False),
    ]
    for changes, trusted in cases:
        used = changed(cluster, tmp_path / "used", "cluster", **changes)
        outcome = world.node("n1", kubeconfig=used).add(pod(), config())
        assert (outcome.code == 0) == trusted, (changes, outcome)
        if not trusted:
            assert outcome.result["code"] == 102
            assert "not trusted" in outcome.result["msg"]
            assert str(used) in outcome.result["details"]


def test_a_token_may_stand_in_a_file_beside_the_kubeconfig(
    world: World, cluster: Cluster, tmp_path: Path
) -> None:
    world.slices("n1")
    (tmp_path / "token").write_text(cluster.token + "\n")
    used = changed(cluster, tmp_path / "used", "user", token=None, tokenFile="token")
    assert world.node("n1", kubeconfig=used).add(pod(), config()).address == "10.40.0.1"


@pytest.mark.parametrize("inline", [True, False])
def test_a_client_certificate_is_shown(
    world: World, cluster: Cluster, tmp_path: Path, inline: bool
) -> None:
    """The API server answers 403, not 401: it knows the name, which has no rights."""
    pair = cluster._authority.issue("somebody", client=True)
    files = {"client-certificate": pair.certificate, "client-key": pair.key}
    if inline:
        given = {
            key + "-data": base64.b64encode(Path(file).read_bytes()).decode()
            for key, file in files.items()
        }
    else:
        given = {key: str(file) for key, file in files.items()}
    used = changed(cluster, tmp_path / "used", "user", token=None, **given)
    outcome = world.node("n1", kubeconfig=used).add(pod(), config())
    assert outcome.result["code"] == 102
    assert '"somebody"' in outcome.result["msg"]


def test_a_kubeconfig_may_be_the_yaml_that_kubectl_writes(
    world: World, cluster: Cluster, tmp_path: Path
) -> None:
    world.slices("n1")
    ca = base64.b64encode(Path(cluster.ca_file).read_bytes()).decode()
    used = tmp_path / "used.yaml"
    used.write_text(f"""\
# written by an installer
apiVersion: v1
kind: Config
clusters:
- name: local
  cluster:
    server: {cluster.server}
    certificate-authority-data: {ca}
users:
- name: whereabouts
  user:
    token: "{cluster.token}"
contexts:
- name: whereabouts-context
  context:
    cluster: local
    user: whereabouts
    namespace: ipam-system
current-context: whereabouts-context
preferences: {{}}
""")
    assert world.node("n1", kubeconfig=used).add(pod(), config()).address == "10.40.0.1"
