"""The loopback cluster: what it offers, and that nothing of it outlives its owner."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hack.cluster.api import Api, ApiError
from hack.cluster.server import Cluster, ClusterError
from whereabouts_fast.kube.resource import (
    CRDS,
    IPPOOLS,
    LEASES,
    NADS,
    NAMESPACES,
    NODES,
    PODS,
    SERVICE_ACCOUNTS,
    Resource,
)

ROOT = Path(__file__).parents[2]

START_AND_REPORT = """
import json, sys
from hack.cluster.server import Cluster
cluster = Cluster.start(crds=False)
print(json.dumps({"pids": cluster.pids, "folder": str(cluster.folder)}), flush=True)
sys.stdin.read()
"""


def test_offers_namespaces_service_accounts_and_our_definitions(api: Api) -> None:
    names = {item["metadata"]["name"] for item in api.list(NAMESPACES.path())}
    assert {"default", "ipam-system", "tenant"} <= names
    for namespace in ("default", "ipam-system", "tenant"):
        assert api.exists(SERVICE_ACCOUNTS.path(namespace, "default"))
    assert api.exists(CRDS.path(name="network-attachment-definitions.k8s.cni.cncf.io"))
    api.create(
        NADS.path("tenant"),
        {
            "apiVersion": NADS.api_version,
            "kind": NADS.kind,
            "metadata": {"name": "empty"},
            "spec": {},
        },
    )


def test_a_plain_service_account_has_no_rights(cluster: Cluster) -> None:
    token = cluster.service_account_token("tenant")
    with (
        Api(cluster.server, cluster.ca_file, token) as stranger,
        pytest.raises(ApiError) as failure,
    ):
        stranger.get(IPPOOLS.path("ipam-system"))
    assert failure.value.status == 403


def test_an_unknown_token_is_refused(cluster: Cluster) -> None:
    with (
        Api(cluster.server, cluster.ca_file, "wrong") as stranger,
        pytest.raises(ApiError) as failure,
    ):
        stranger.get(NODES.path())
    assert failure.value.status == 401


def _node(name: str) -> dict[str, object]:
    metadata = {"name": name, "finalizers": ["example.com/held"]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata}


def _pod(name: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "none"}]},
    }


def _leave(api: Api) -> None:
    api.create(NODES.path(), _node("n1"))
    api.create(PODS.path("tenant"), _pod("p1"))
    lease = {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": {"name": "held"}}
    api.create(LEASES.path("ipam-system"), lease)


@pytest.mark.parametrize("run", [1, 2])
def test_each_test_begins_without_the_objects_of_the_one_before(api: Api, run: int) -> None:
    _leave(api)
    assert [item["metadata"]["name"] for item in api.list(NODES.path())] == ["n1"], run
    assert len(api.list(PODS.path("tenant"))) == 1


def test_a_stopped_server_comes_back_on_its_port_with_its_data(own_cluster: Cluster) -> None:
    api = own_cluster.api
    api.create(NODES.path(), _node("n1"))
    own_cluster.stop_server()
    with pytest.raises(OSError, match=r"."):
        api.get(NODES.path(name="n1"))
    own_cluster.start_server()
    assert api.exists(NODES.path(name="n1"))
    own_cluster.stop_server(graceful=True)
    own_cluster.start_server()
    assert api.exists(NODES.path(name="n1"))


def test_compaction_expires_a_watch_that_is_older() -> None:
    with Cluster.start(crds=False, flags=["--watch-cache=false"]) as cluster:
        api = cluster.api
        version = api.create(NODES.path(), _node("n1"))["metadata"]["resourceVersion"]
        assert cluster.compact() > int(version)
        with pytest.raises(ApiError) as failure:
            next(api.watch(NODES.path(), resourceVersion=version))
        assert failure.value.status == 410


def test_a_feature_gate_turns_streaming_lists_off() -> None:
    with Cluster.start(crds=False, feature_gates={"WatchList": False}) as cluster:
        answer = cluster.api.exchange(
            "GET",
            NODES.path() + "?watch=1&sendInitialEvents=true&allowWatchBookmarks=true"
            "&resourceVersionMatch=NotOlderThan",
        )
        assert answer.status == 422
        assert "WatchList" in answer.json()["message"]


def test_a_server_that_cannot_start_shows_its_log() -> None:
    with pytest.raises(ClusterError, match="no-such-flag"):
        Cluster.start(crds=False, flags=["--no-such-flag"])


def test_servers_outlive_the_thread_that_started_them() -> None:
    started: list[Cluster] = []
    thread = threading.Thread(target=lambda: started.append(Cluster.start(crds=False)))
    thread.start()
    thread.join()
    with started[0] as cluster:
        assert cluster.api.get(NODES.path())["items"] == []
        cluster.require_running()


def test_nothing_survives_a_killed_owner_and_the_next_start_removes_its_folder() -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", START_AND_REPORT],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with owner:
        assert owner.stdout is not None
        report = json.loads(owner.stdout.readline())
        handles = [os.pidfd_open(pid) for pid in report["pids"].values()]
        owner.kill()
    for handle in handles:
        readable, _, _ = select.select([handle], [], [], 30)
        assert readable == [handle]
        os.close(handle)
    assert Path(report["folder"]).exists()
    with Cluster.start(crds=False) as cluster:
        assert cluster.folder.exists()
        assert not Path(report["folder"]).exists()
    assert not cluster.folder.exists()


def test_two_clusters_live_side_by_side(api: Api, own_cluster: Cluster) -> None:
    own_cluster.api.create(NODES.path(), _node("elsewhere"))
    assert api.list(NODES.path()) == []


@pytest.mark.parametrize(
    ("kind", "namespace", "name", "path"),
    [
        (NODES, None, None, "/api/v1/nodes"),
        (NODES, None, "n1", "/api/v1/nodes/n1"),
        (PODS, None, None, "/api/v1/pods"),
        (PODS, "tenant", "p", "/api/v1/namespaces/tenant/pods/p"),
        (LEASES, "a", None, "/apis/coordination.k8s.io/v1/namespaces/a/leases"),
    ],
)
def test_paths_are_those_of_the_api(
    kind: Resource, namespace: str | None, name: str | None, path: str
) -> None:
    assert kind.path(namespace, name) == path


def test_paths_that_the_api_does_not_have_are_refused() -> None:
    with pytest.raises(ValueError, match="nodes have no namespace"):
        NODES.path("tenant")
    with pytest.raises(ValueError, match=r"pods .* needs a namespace"):
        PODS.path(name="p")
