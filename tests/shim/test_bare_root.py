"""A machine with nothing but what a form may ask for: a root directory made by hand.

`static` asks for nothing, the others for the C library, and `script` for a shell besides.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from cni.folder.elf import Elf, is_elf
from hack.cluster.server import Cluster
from tests.shim import forms
from tests.shim.world import World, config, pod

# Enters another root as whoever runs the tests.
CHROOT = ["chroot"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "chroot"]
SHELL = Path("/bin/sh")
C_LIBRARY = re.compile(r"(ld-linux-.*|libc|libm|libdl|libpthread|librt|libutil)\.so\.\d+")


def in_root(root: Path, stdin: str, **environment: str) -> dict[str, Any]:
    done = subprocess.run(
        [*(shutil.which(CHROOT[0]) or CHROOT[0], *CHROOT[1:]), root, "/opt/whereabouts"],
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


def linked_to(file: Path) -> set[str]:
    """The libraries that a file names."""
    data = file.read_bytes()
    return set(Elf(data).needed) if is_elf(data) else set()


def copy_c_library(executable: Path, root: Path) -> None:
    """Copy the loader, and the C library's parts that lie beside libc.so."""
    listing = subprocess.run(["ldd", executable], capture_output=True, text=True, check=True).stdout
    paths = [Path(path) for path in re.findall(r"(?:=> |^\s+)(/\S+)", listing, re.MULTILINE)]
    (beside,) = {path.parent for path in paths if path.name == "libc.so.6"}
    for path in {*paths, *beside.glob("lib*.so.*")}:
        if C_LIBRARY.fullmatch(path.name):
            place = root / path.relative_to("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)


def copy_of(shim: Path, form: str, root: Path) -> Path:
    """Fill a root directory; return it."""
    if form == forms.STATIC:
        (root / "opt").mkdir(parents=True)
        shutil.copy(shim, root / "opt")
        return root
    shutil.copytree(shim.parent, root / "opt")
    if form == forms.SCRIPT:
        place = root / "bin/sh"
        place.parent.mkdir()
        shutil.copy(SHELL, place)
        copy_c_library(SHELL, root)
    else:
        copy_c_library(shim, root)
        # Stands for a mounted /proc, which not everyone may mount.
        (root / "proc/self").mkdir(parents=True)
        (root / "proc/self/exe").symlink_to("/opt/whereabouts")
    return root


@pytest.fixture
def root(shim: Path, form: str, tmp_path: Path) -> Path:
    return copy_of(shim, form, tmp_path / "root")


def test_only_the_c_library_is_asked_for(shim: Path, form: str) -> None:
    files = [shim] if form == forms.STATIC else [p for p in shim.parent.rglob("*") if p.is_file()]
    own = {path.name for path in files}
    asked = {name for path in files for name in linked_to(path) - own}
    assert {name for name in asked if not C_LIBRARY.fullmatch(name)} == set()
    assert (asked == set()) == (form == forms.STATIC)


def test_version_is_answered_where_nothing_else_is(root: Path) -> None:
    before = sorted(root.rglob("*"))
    answer = in_root(root, "{}", CNI_COMMAND="VERSION")
    assert len(answer["supportedVersions"]) == 7
    assert sorted(root.rglob("*")) == before


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_an_address_is_given_and_taken_back_where_nothing_else_is(
    world: World, cluster: Cluster, root: Path, form: str, host: str
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
    if form == forms.STATIC:
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
    given = in_root(root, json.dumps(network), CNI_COMMAND="ADD", **call)
    assert given["ips"][0]["address"] == "10.40.0.1/24", given
    assert [entry["id"] for entry in world.allocations(pool).values()] == [one.container]
    gone = in_root(root, json.dumps(network), CNI_COMMAND="DEL", **call)
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
    plain = in_root(root, "{}", CNI_COMMAND="VERSION")
    assert in_root(root, "{}", CNI_COMMAND="VERSION", **steering) == plain
