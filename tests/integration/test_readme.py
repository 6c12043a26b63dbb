"""What the README prints is run as it stands."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import yaml

from cni.build import build
from hack.cluster.api import Api
from hack.cluster.server import Cluster
from tests.integration.controller_process import NODES, nad_path, running, table

ROOT = Path(__file__).parents[2]


def apply_example(api: Api) -> None:
    for document in yaml.safe_load_all((ROOT / "hack/cluster/example.yaml").read_text()):
        node = document["kind"] == "Node"
        api.create(NODES if node else nad_path(document["metadata"]["namespace"]), document)


def test_the_readme_walk_gives_an_address_on_the_example_network(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    readme = (ROOT / "README.md").read_text()
    printed = re.search(r"by hand:\n\n```sh\n(.*?)\nmake cluster-down\n```", readme, re.DOTALL)
    expected = re.search(r"# blue: (\d+) active, (\d+) free, (\d+) waiting", readme)
    assert printed
    assert expected
    build(tmp_path / "build" / "shim")
    (tmp_path / ".cluster").symlink_to(cluster.kubeconfig.parent)
    with running(cluster.kubeconfig, tmp_path) as controller:
        apply_example(api)
        found = controller.wait(
            lambda: (table(api) or {}).get("status", {}).get("waiting") and table(api), "blue waits"
        )
        assert found is not None
        counts = [found["status"][key] for key in ("active", "free", "waiting")]
        assert counts == [int(number) for number in expected.groups()]
        script = printed[1].replace(".cluster/kubeconfig", f".cluster/{cluster.kubeconfig.name}")
        done = subprocess.run(
            ["sh", "-ec", script],
            cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin", "PWD": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["ips"][0]["address"] == "10.40.0.1/24"
