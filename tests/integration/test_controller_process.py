"""The process around the loops: lease, signals, endpoints, definitions."""

from __future__ import annotations

import http.client
from pathlib import Path

from hack.cluster.api import Api
from hack.cluster.server import Cluster
from tests.integration.controller_process import (
    LEASES,
    POOLS,
    Controller,
    create_nad,
    create_node,
    find,
    running,
    wait_open,
)
from whereabouts_fast.kube.resource import CRDS

LEASE = f"{LEASES}/whereabouts-fast-controller"
FAST = ("--lease-duration", "3", "--renew-deadline", "2", "--retry-period", "0.3")


def fetch(controller: Controller, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(*controller.address, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def holder(api: Api) -> str:
    return str((find(api, LEASE) or {}).get("spec", {}).get("holderIdentity") or "")


def test_sigterm_ends_in_order_and_gives_the_lease_back(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    with running(cluster.kubeconfig, tmp_path, "--identity", "one") as controller:
        controller.wait(lambda: controller.entries("Began to lead"), "it leads")
        assert holder(api) == "one"
        assert controller.stop() == 0
        assert holder(api) == ""
        messages = [entry["msg"] for entry in controller.entries()]
        assert messages[-3:] == ["Stopping", "Ceased to lead", "Stopped"]
    # Nobody has to wait for the lease to expire.
    with running(cluster.kubeconfig, tmp_path, "--identity", "two") as controller:
        controller.wait(lambda: controller.entries("Began to lead"), "the next leads", limit=10)


def test_of_two_replicas_one_leads_and_the_other_takes_over(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_nad(api)
    with (
        running(cluster.kubeconfig, tmp_path, "--identity", "one", *FAST) as one,
        running(cluster.kubeconfig, tmp_path, "--identity", "two", *FAST) as two,
    ):
        one.wait(lambda: holder(api), "somebody leads")
        first, second = (one, two) if holder(api) == "one" else (two, one)
        first.wait(lambda: first.entries("Began to lead"), "the holder leads")
        second.wait(lambda: second.entries("Filled caches"), "the other is ready to lead")
        assert fetch(second, "/readyz") == (200, "ok\n")
        assert not second.entries("Began to lead")
        create_node(api, "n1")
        wait_open(api, {"blue-n1-10.40.0.0-26"})
        first.kill()
        create_node(api, "n2")
        wait_open(api, {"blue-n1-10.40.0.0-26", "blue-n2-10.40.0.64-26"})
        assert second.entries("Began to lead")
        assert second.stop() == 0


def test_a_restart_takes_its_own_lease_back_at_once(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    with running(cluster.kubeconfig, tmp_path, "--identity", "one") as controller:
        controller.wait(lambda: controller.entries("Began to lead"), "it leads")
        controller.kill()
    with running(cluster.kubeconfig, tmp_path, "--identity", "one") as controller:
        # The lease of the dead one lasts 15 s.
        controller.wait(lambda: controller.entries("Began to lead"), "it leads again", limit=10)


def test_missing_and_outdated_definitions_are_told_and_waited_for(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    api = own_cluster.api
    path = CRDS.path(name="ippools.whereabouts.cni.cncf.io")
    original = api.get(path)
    old = {**original, "spec": {**original["spec"]}}
    (version,) = original["spec"]["versions"]
    properties = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    kept = {k: v for k, v in properties.items() if k != "closed"}
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": kept}},
    }
    old["spec"]["versions"] = [{**version, "schema": {"openAPIV3Schema": schema}}]
    current = api.replace(path, old)
    create_node(api, "n1")
    create_nad(api)
    with running(own_cluster.kubeconfig, tmp_path) as controller:
        (entry,) = controller.wait(
            lambda: controller.entries("Failed self-check"), "the definitions are judged"
        )
        for word in ("ippools", "too old", "spec.closed", "apply the CRDs"):
            assert word in entry["err"]
        status, text = fetch(controller, "/readyz")
        assert status == 503
        assert "spec.closed" in text
        assert fetch(controller, "/healthz")[0] == 200
        assert not controller.entries("Began to lead")
        metadata = {**original["metadata"]}
        metadata["resourceVersion"] = current["metadata"]["resourceVersion"]
        api.replace(path, {**original, "metadata": metadata})
        controller.wait_for_pools(api)
        wait_open(api, {"blue-n1-10.40.0.0-26"})
        assert fetch(controller, "/readyz") == (200, "ok\n")


def test_definitions_replaced_later_let_no_pool_stay_open(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    """The server then drops the mark with which a pool is created."""
    api = own_cluster.api
    path = CRDS.path(name="ippools.whereabouts.cni.cncf.io")
    closed = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/closed"
    create_node(api, "n1")
    create_nad(api)
    with running(own_cluster.kubeconfig, tmp_path) as controller:
        wait_open(api, {"blue-n1-10.40.0.0-26"})
        before = api.get(path)
        api.patch(path, [{"op": "remove", "path": closed}])
        controller.wait_for_pools(api)
        create_node(api, "n2")
        (entry, *_) = controller.wait(
            lambda: [e for e in controller.entries("Failed to settle") if "dropped" in e["err"]],
            "the loss of the mark is told",
        )
        for word in ("spec.closed", "blue-n2-10.40.0.64-26", "apply the CRDs"):
            assert word in entry["err"]
        now = api.get(path)
        api.replace(path, {**now, "spec": before["spec"]})
        controller.wait_for_pools(api)
        wait_open(api, {"blue-n1-10.40.0.0-26", "blue-n2-10.40.0.64-26"})


def test_an_address_in_use_is_a_failure_that_names_it(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    assert api.list(POOLS) == []
    with running(cluster.kubeconfig, tmp_path) as first:
        host, port = first.address
        with running(cluster.kubeconfig, tmp_path, "--listen", f"{host}:{port}") as second:
            assert second.process.wait(timeout=30) == 1
            assert str(port) in second.log
            assert "Traceback" not in second.log


def test_sigterm_ends_a_controller_that_never_reached_a_server(
    cluster: Cluster, tmp_path: Path
) -> None:
    nowhere = cluster.kubeconfig_for(server="https://127.0.0.1:1")
    with running(nowhere, tmp_path) as controller:
        assert fetch(controller, "/readyz")[0] == 503
        (entry,) = controller.wait(
            lambda: controller.entries("Failed self-check"), "it says what is missing"
        )
        assert "127.0.0.1:1" in entry["err"] or "connect" in entry["err"].lower()
        assert controller.stop() == 0
