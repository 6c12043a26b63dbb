"""What keeps a controller from its work is told in one line each, and waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hack.cluster.api import Api
from hack.cluster.commands import SYSTEM_NAMESPACE
from hack.cluster.server import Cluster
from tests.integration.controller_account import ALL, Account, account
from tests.integration.controller_process import (
    NODES,
    create_nad,
    create_node,
    fill,
    running,
    wait_events,
    wait_open,
    wait_table,
)
from tests.integration.machines import DEFINITION
from tests.integration.test_controller_process import fetch
from whereabouts_fast.controller import permissions
from whereabouts_fast.controller.permissions import Need
from whereabouts_fast.controller.process import COMPONENT
from whereabouts_fast.kube.client import Client
from whereabouts_fast.kube.resource import CRDS, NAMESPACES, PODS, VMIS


@pytest.fixture
def limited(cluster: Cluster, api: Api) -> Iterator[Account]:
    with account(cluster) as made:
        yield made


@asynccontextmanager
async def connected(account: Account) -> AsyncIterator[Client]:
    async with Client.connect(str(account.kubeconfig), "whereabouts-fast-test/1") as client:
        yield client


async def denied_in_the_end(client: Client, expected: list[Need]) -> None:
    """Wait until the server refuses just this; it takes a moment to know of a role."""
    async with asyncio.timeout(20):
        while await permissions.denied(client, ALL) != expected:
            pass


async def test_each_right_that_is_missing_is_found(limited: Account) -> None:
    async with connected(limited) as client:
        for missing in (need for need in ALL if not need.optional):
            await asyncio.to_thread(limited.allow, [need for need in ALL if need != missing])
            await denied_in_the_end(client, [missing])


async def test_a_kind_that_may_be_absent_is_asked_for_where_it_is_installed(
    own_cluster: Cluster,
) -> None:
    optional = [need for need in ALL if need.optional]
    assert {need.resource for need in optional} == {VMIS}
    with account(own_cluster) as limited:
        limited.allow(need for need in ALL if need not in optional)
        async with connected(limited) as client:
            await denied_in_the_end(client, [])
            await asyncio.to_thread(own_cluster.api.create, CRDS.path(), DEFINITION)
            await denied_in_the_end(client, optional)


def test_a_right_that_is_missing_is_told_and_waited_for(
    limited: Account, api: Api, tmp_path: Path
) -> None:
    missing = (Need(PODS, "watch"), Need(NAMESPACES, "get", name=SYSTEM_NAMESPACE))
    limited.allow(need for need in ALL if need not in missing)
    create_node(api, "n1")
    create_nad(api)
    with running(limited.kubeconfig, tmp_path) as controller:
        expected = {
            "not allowed: watch pods in all namespaces; grant it to the controller's"
            " ServiceAccount",
            f"not allowed: get namespaces {SYSTEM_NAMESPACE}; grant it to the controller's"
            " ServiceAccount",
        }
        told = controller.wait(lambda: controller.entries("Failed self-check"), "it is told")
        assert expected == {entry["err"] for entry in told[-2:]}
        status, text = fetch(controller, "/readyz")
        assert status == 503
        assert {f"self-check: {line}" for line in expected} <= set(text.splitlines())
        assert fetch(controller, "/healthz")[0] == 200
        limited.allow(ALL)
        wait_open(api, {"blue-n1-10.40.0.0-26"})
        assert fetch(controller, "/readyz") == (200, "ok\n")
        assert controller.entries("Passed self-check")


def test_the_rights_that_are_asked_for_are_enough(
    limited: Account, cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    limited.allow(ALL)
    since = cluster.audit.mark()
    for name in ("a", "b", "c"):
        create_node(api, name)
    create_nad(api, range="10.40.0.0/25", node_slice_cooldown=0.2)
    create_nad(api, "red", network_name="blue", range="10.40.0.0/24", node_slice_size=None)
    with running(limited.kubeconfig, tmp_path) as controller:
        wait_open(api, {"blue-a-10.40.0.0-26", "blue-b-10.40.0.64-26", "blue-10.40.0.0-24"})
        wait_events(api, "NodeSlicesExhausted", 1)
        fill(api, "blue-10.40.0.0-24", 200)
        api.delete(f"{NODES}/a")
        wait_table(api, lambda held: held.get("10.40.0.0/26") == ("c", "Active"))
        assert controller.stop() == 0
    made = [one for one in cluster.audit.entries(since) if one.agent == COMPONENT]
    assert made
    assert [entry for entry in made if entry.code == 403] == []


def test_a_namespace_that_does_not_exist_is_told_and_waited_for(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    flags = ("--namespace", "elsewhere")
    with running(own_cluster.kubeconfig, tmp_path, *flags) as controller:
        (entry,) = controller.wait(lambda: controller.entries("Failed self-check"), "it is told")
        assert entry["err"] == (
            "the namespace elsewhere does not exist: create it, or set --namespace"
        )
        assert fetch(controller, "/readyz")[0] == 503
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}}
        own_cluster.api.create(NAMESPACES.path(), body)
        controller.wait(lambda: controller.entries("Began to lead"), "it leads")
        assert fetch(controller, "/readyz") == (200, "ok\n")


def test_a_definition_replaced_by_an_older_one_makes_it_not_ready(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    api = own_cluster.api
    path = CRDS.path(name="nodeslicepools.whereabouts.cni.cncf.io")
    status = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties"
    since = f"{status}/allocations/items/properties/since"
    with running(own_cluster.kubeconfig, tmp_path, "--self-check-period", "0.2") as controller:
        controller.wait(lambda: fetch(controller, "/readyz")[0] == 200, "it is ready")
        before = api.get(path)
        api.patch(path, [{"op": "remove", "path": since}])
        controller.wait(lambda: fetch(controller, "/readyz")[0] == 503, "it is not ready")
        (entry,) = controller.entries("Failed self-check")
        assert "would drop status.allocations.*.since" in entry["err"]
        api.replace(path, {**api.get(path), "spec": before["spec"]})
        controller.wait(lambda: fetch(controller, "/readyz")[0] == 200, "it is ready again")
        assert len(controller.entries("Failed self-check")) == 1
