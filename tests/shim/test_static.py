"""The static executable: it needs nothing of the host, and says what it is made of."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from cni.static import base, link
from hack.cluster.server import Cluster
from tests.shim import forms
from tests.shim.world import World, config, pod

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.parametrize("shim", [forms.STATIC], indirect=True)

# Enters another root as whoever runs the tests.
CHROOT = ["chroot"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "chroot"]


def in_empty_root(root: Path, stdin: str, **environment: str) -> dict[str, Any]:
    done = subprocess.run(
        [*(shutil.which(CHROOT[0]) or CHROOT[0], *CHROOT[1:]), root, "/whereabouts"],
        input=stdin,
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    answer: dict[str, Any] = json.loads(done.stdout) if done.stdout else {"code": done.returncode}
    return answer


@pytest.fixture
def root(shim: Path, tmp_path: Path) -> Path:
    """A root directory that holds the executable and nothing else."""
    folder = tmp_path / "root"
    folder.mkdir()
    shutil.copy(shim, folder)
    return folder


def test_version_is_answered_in_an_empty_root(root: Path) -> None:
    assert [path.name for path in root.iterdir()] == ["whereabouts"]
    answer = in_empty_root(root, "{}", CNI_COMMAND="VERSION")
    assert len(answer["supportedVersions"]) == 7
    assert [path.name for path in root.iterdir()] == ["whereabouts"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_an_address_is_given_and_taken_back_in_a_root_without_a_libc(
    world: World, cluster: Cluster, root: Path, host: str
) -> None:
    """A name is looked up in files and DNS, even where the host's libc would ask others first."""
    (pool,) = world.slices("n1")
    whole = json.loads(cluster.kubeconfig_for(path=root / "kubeconfig").read_text())
    server = whole["clusters"][0]["cluster"]
    server["server"] = cluster.server.replace("127.0.0.1", host)
    ca = Path(server.pop("certificate-authority", cluster.ca_file)).read_bytes()
    server["certificate-authority-data"] = b64encode(ca).decode()
    whole["users"][0]["user"] = {"token": cluster.token}
    (root / "kubeconfig").write_text(json.dumps(whole))
    (root / "etc").mkdir()
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
    (root / "etc/nsswitch.conf").write_text("hosts: myhostname resolve\n")
    network = config(kubernetes={"kubeconfig": "/kubeconfig"}, hints_dir="/hints")
    one = pod()
    call = {
        "CNI_CONTAINERID": one.container,
        "CNI_NETNS": "/none",
        "CNI_IFNAME": "net1",
        "CNI_ARGS": f"K8S_POD_NAMESPACE={one.namespace};K8S_POD_NAME={one.name};"
        f"K8S_POD_UID={one.uid};K8S_POD_INFRA_CONTAINER_ID={one.container}",
        "NODENAME": "n1",
    }
    given = in_empty_root(root, json.dumps(network), CNI_COMMAND="ADD", **call)
    assert given["ips"][0]["address"] == "10.40.0.1/24", given
    assert [entry["id"] for entry in world.allocations(pool).values()] == [one.container]
    gone = in_empty_root(root, json.dumps(network), CNI_COMMAND="DEL", **call)
    assert gone == {"code": 0}
    assert world.allocations(pool) == {}


def test_variables_that_steer_python_and_openssl_are_ignored(root: Path) -> None:
    steering = {
        "PYTHONHOME": "/none",
        "PYTHONPATH": "/none",
        "PYTHONVERBOSE": "1",
        "PYTHONINSPECT": "1",
        "PYTHONDUMPREFS": "1",
        "OPENSSL_CONF": "/none",
        "LANG": "none",
    }
    plain = in_empty_root(root, "{}", CNI_COMMAND="VERSION")
    assert in_empty_root(root, "{}", CNI_COMMAND="VERSION", **steering) == plain


def test_the_record_names_what_is_linked_in(shim: Path) -> None:
    record = json.loads(shim.with_name("whereabouts.json").read_text())
    versions = {entry["name"]: entry["version"] for entry in record}
    assert list(versions)[:3] == ["python3.11", "openssl", "glibc"]
    assert all(
        re.fullmatch(r"pkg:deb/debian/\S+@\S+\?arch=source", one["source"]) for one in record
    )
    content = shim.read_bytes()
    upstream = {name: re.split("[-~]", version)[0] for name, version in versions.items()}
    assert f"OpenSSL {upstream['openssl']} ".encode() in content
    assert f"{upstream['python3.11']}".encode() in content


def test_the_public_way_to_start_python_works_as_well(
    world: World, shim: Path, tmp_path: Path
) -> None:
    found = base_of_shim()
    full = link.link(found, tmp_path / "full", full_start=True)
    assert full.stat().st_size > shim.stat().st_size
    world.slices("n1")
    node = world.node("n1")
    node.shim = full
    assert node.add(pod(), config()).address == "10.40.0.1"


def test_two_builds_are_alike(shim: Path, tmp_path: Path) -> None:
    """As they are made: marshalling shows which strings else live in its process."""
    contents = set()
    for seed in ("1", "2"):
        command = [sys.executable, "-m", "cni.static", str(tmp_path / seed)]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
        contents.add((tmp_path / seed / shim.name).read_bytes())
    assert len(contents) == 1


def base_of_shim() -> base.Base:
    found = base.find()
    assert found is not None
    return found
