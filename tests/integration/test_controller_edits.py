"""What people do to objects by hand, and what whereabouts left: nobody's addresses are dealt on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hack.cluster.api import Api
from hack.cluster.commands import SYSTEM_NAMESPACE
from hack.cluster.server import Cluster
from tests.faults.actions import DelayStream, Gate
from tests.faults.proxy import Proxy
from tests.integration.controller_process import (
    LEASES,
    NODES,
    POOLS,
    TABLES,
    create_nad,
    create_node,
    drop,
    fill,
    nad_path,
    nodes_of,
    pools,
    running,
    wait_events,
    wait_gone,
    wait_open,
    wait_table,
)

GREEN = {"node": "n1", "network": "green"}
API_VERSION = "whereabouts.cni.cncf.io/v1alpha1"
FIRST, SECOND, THIRD, LAST = (f"10.40.0.{64 * at}/26" for at in range(4))


def edit_nad(api: Api, change: Callable[[dict[str, Any]], object], name: str = "blue") -> None:
    found = api.get(f"{nad_path()}/{name}")
    config = json.loads(found["spec"]["config"])
    change(config)
    api.patch(f"{nad_path()}/{name}", {"spec": {"config": json.dumps(config)}})


def create_pool(api: Api, name: str, range_: str, *offsets: int, **spec: Any) -> None:
    """Create a pool as whereabouts does, or with more in its spec."""
    allocations = {str(at): {"id": f"c{at}", "podref": f"tenant/p{at}"} for at in offsets}
    body = {
        "apiVersion": API_VERSION,
        "kind": "IPPool",
        "metadata": {"name": name},
        "spec": {"range": range_, "allocations": allocations, **spec},
    }
    api.create(POOLS, body)


def create_table(api: Api, *slices: tuple[str, str], name: str = "blue") -> None:
    """Create the table as whereabouts does, with every slice and no state."""
    allocations = [{"sliceRange": cidr, "nodeName": node} for cidr, node in slices]
    body = {
        "apiVersion": API_VERSION,
        "kind": "NodeSlicePool",
        "metadata": {"name": name},
        "spec": {"range": "10.40.0.0/24", "sliceSize": "26"},
        "status": {"allocations": allocations},
    }
    api.create(TABLES, body)


@pytest.mark.parametrize(
    ("before", "after", "old", "new"),
    [
        ("blue", None, "blue-n1-10.40.0.0-26", "n1-10.40.0.0-26"),
        (None, "blue", "n1-10.40.0.0-26", "blue-n1-10.40.0.0-26"),
    ],
)
def test_an_edited_network_name_deals_no_address_of_a_live_pod(
    cluster: Cluster,
    api: Api,
    tmp_path: Path,
    before: str | None,
    after: str | None,
    old: str,
    new: str,
) -> None:
    create_node(api, "n1")
    create_nad(api, network_name=before, node_slice_cooldown=0.2)
    with running(cluster.kubeconfig, tmp_path):
        wait_open(api, {old})
        fill(api, old, 5)
        edit_nad(api, lambda config: config["ipam"].update(network_name=after or ""))
        wait_events(api, "OverlappingRanges", 1)
        wait_table(api, lambda held: held == {FIRST: ("n1", "Draining")})
        wait_open(api, set())
        assert set(pools(api)) == {old}
        drop(api, old, 5)
        wait_open(api, {new})
        assert set(pools(api)) == {new}


def test_pools_and_table_of_whereabouts_are_taken_over_as_they_are(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_table(api, (FIRST, "n1"), (SECOND, "n2"), (THIRD, ""), (LAST, ""))
    create_pool(api, "blue-n1-10.40.0.0-26", FIRST, 5)
    create_pool(api, "blue-n2-10.40.0.64-26", SECOND)
    for name in ("n1", "n2", "n3"):
        create_node(api, name)
    create_nad(api, node_slice_cooldown=0.2)
    with running(cluster.kubeconfig, tmp_path) as controller:
        wait_open(api, {"blue-n1-10.40.0.0-26", "blue-n2-10.40.0.64-26", "blue-n3-10.40.0.128-26"})
        api.delete(f"{NODES}/n1")
        api.delete(f"{NODES}/n2")
        wait_gone(api, POOLS, "blue-n2-10.40.0.64-26")
        held = wait_table(api, lambda held: SECOND not in held)
        assert held == {FIRST: ("n1", "Draining"), THIRD: ("n3", "Active")}
        assert list(pools(api)["blue-n1-10.40.0.0-26"]["spec"]["allocations"]) == ["5"]
        drop(api, "blue-n1-10.40.0.0-26", 5)
        wait_table(api, lambda held: held == {THIRD: ("n3", "Active")})
        assert not controller.entries("Failed to settle")


@pytest.mark.parametrize(
    ("name", "range_"),
    [("blue-10.40.0.0-24", "10.40.0.0/25"), ("blue-n9-10.40.0.0-26", "10.40.0.0/26")],
)
def test_no_slice_is_dealt_over_a_pool_of_whereabouts_without_a_table(
    cluster: Cluster, api: Api, tmp_path: Path, name: str, range_: str
) -> None:
    name = f"{name.rpartition('-10')[0]}-{range_.replace('/', '-')}"
    create_pool(api, name, range_, 5)
    create_node(api, "n1")
    create_nad(api)
    with running(cluster.kubeconfig, tmp_path):
        taken = wait_table(api, lambda held: len(nodes_of(held)) == 1)
        assert list(taken) == [THIRD if range_.endswith("/25") else SECOND]


def test_what_one_network_leaves_is_dealt_to_those_who_wait_in_another(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    for name in ("n1", "n2"):
        create_node(api, name)
    create_nad(api, "a", network_name=None, range="10.40.0.0/25", node_slice_cooldown=0.2)
    gate = Gate(closed=False)
    with Proxy(cluster) as proxy:
        proxy.inject(DelayStream(gate), when=lambda r: r.is_watch and r.path == TABLES)
        with running(proxy.kubeconfig, tmp_path):
            wait_open(api, {"n1-10.40.0.0-26", "n2-10.40.0.64-26"})
            fill(api, "n2-10.40.0.64-26", 5)
            create_nad(api, "b", network_name=None, range="10.40.0.0/24", node_slice_size="/25")
            wait_events(api, "OverlappingRanges", 1)
            api.delete(f"{nad_path()}/a")
            wait_table(api, lambda held: nodes_of(held) == {"n1": "10.40.0.128/25"}, "b")
            # The end of the table is no news when it comes.
            gate.close()
            drop(api, "n2-10.40.0.64-26", 5)
            wait_gone(api, TABLES, "a")
            gate.open()
            wait_open(api, {"n1-10.40.0.128-25", "n2-10.40.0.0-25"})


def test_names_no_pool_can_have_stop_nobody(cluster: Cluster, api: Api, tmp_path: Path) -> None:
    create_table(api, (FIRST, "N1_not_a_name"), (SECOND, "x" * 260))
    create_node(api, "n1")
    create_node(api, "n" * 50)
    create_nad(api, network_name="blue", node_slice_cooldown=0.2)
    create_nad(api, "long", network_name="l" * 195, range="10.41.0.0/24")
    with running(cluster.kubeconfig, tmp_path) as controller:
        wait_open(
            api,
            {
                "blue-n1-10.40.0.128-26",
                f"blue-{'n' * 50}-10.40.0.192-26",
                f"{'l' * 195}-n1-10.41.0.0-26",
            },
        )
        wait_table(api, lambda held: set(held) == {THIRD, LAST})
        (event,) = wait_events(api, "InvalidNetworkConfig", 1)
        assert "n" * 50 in event["note"]
        assert not controller.entries("Failed to settle")


def test_a_settled_controller_with_bad_objects_of_every_kind_asks_for_nothing(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_pool(api, "blue-n1-10.40.0.0-26", "10.40.0.0/99")
    create_pool(api, "copy", THIRD, node="n1", network="blue")
    create_pool(api, "green-n1-10.42.0.0-26", "10.42.0.0/26", closed=True, **GREEN)
    kept = {"metadata": {"finalizers": ["example.test/kept"]}}
    api.patch(f"{POOLS}/green-n1-10.42.0.0-26", kept)
    create_table(api, (FIRST, "n1"), ("10.41.0.0/99", "n2"), name="red")
    create_nad(api, "poison", text="{")
    create_nad(api)
    create_nad(api, "red", range="10.41.0.0/24")
    create_node(api, "n1")
    create_node(api, "n2")
    flags = ("--lease-duration", "3", "--renew-deadline", "2", "--retry-period", "0.4")
    with running(cluster.kubeconfig, tmp_path, *flags) as controller:
        wait_open(api, {"blue-n1-10.40.0.0-26", "blue-n2-10.40.0.64-26", "copy"})
        # About the poison, the pool that stands in the way of another, and the table.
        wait_events(api, "InvalidNetworkConfig", 3)
        wait_events(api, "UnreadablePool", 1, SYSTEM_NAMESPACE)
        wait_events(api, "NodeSliceAssigned", 1, SYSTEM_NAMESPACE)
        api.wait_for(
            POOLS,
            lambda items: all("deletionTimestamp" in i["metadata"] for i in items),
            fieldSelector="metadata.name=green-n1-10.42.0.0-26",
        )
        wait_renewals(api, 1)
        begin = cluster.audit.mark()
        wait_renewals(api, 4)
        requests = cluster.audit.counts(begin)
        mine = {what[1:3] for what in requests if what[0] == "whereabouts-fast-controller"}
        assert mine == {("update", "leases")}
        assert not controller.entries("Failed to settle")


def wait_renewals(api: Api, count: int) -> None:
    """Wait until the leader has renewed its lease so many times."""
    seen: set[str] = set()

    def renewed(items: list[dict[str, Any]]) -> bool:
        seen.update(item["spec"]["renewTime"] for item in items)
        return len(seen) > count

    api.wait_for(LEASES, renewed)
