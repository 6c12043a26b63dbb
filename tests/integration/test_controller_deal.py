"""Dealing: who gets which slice, and what the objects look like on the way there."""

from __future__ import annotations

from pathlib import Path

from hack.cluster.api import Api
from hack.cluster.server import Cluster
from tests.integration.controller_process import (
    POOLS,
    TABLES,
    condition,
    create_nad,
    create_node,
    events,
    holders,
    nodes_of,
    pools,
    running,
    table,
    wait_open,
    wait_table,
)

AGENT = "whereabouts-fast-controller"
SLICES = ["10.40.0.0/26", "10.40.0.64/26", "10.40.0.128/26", "10.40.0.192/26"]


def pool_names(network: str, nodes: list[str], slices: list[str]) -> set[str]:
    return {
        f"{network}-{node}-{cidr.replace('/', '-').replace(':', '-')}"
        for node, cidr in zip(nodes, slices, strict=True)
    }


def test_a_table_appears_complete_and_pools_are_opened_in_two_steps(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    nodes = ["n1", "n2", "n3", "n4"]
    for name in nodes:
        create_node(api, name)
    before = api.get(POOLS)["metadata"]["resourceVersion"]
    mark = cluster.audit.mark()
    with running(cluster.kubeconfig, tmp_path):
        create_nad(api)
        watched = api.watch(TABLES, resourceVersion=before)
        first = next(e for e in watched if e["object"]["metadata"]["name"] == "blue")
        watched.close()
        assert first["type"] == "ADDED"
        entries = first["object"]["status"]["allocations"]
        assert [(e["nodeName"], e["sliceRange"]) for e in entries] == list(
            zip(nodes, SLICES, strict=True)
        )
        assert first["object"]["spec"] == {
            "network": "blue",
            "networkName": "blue",
            "range": "10.40.0.0/24",
            "sliceSize": "/26",
        }
        found = wait_open(api, pool_names("blue", nodes, SLICES))
    history = api.watch(POOLS, resourceVersion=before, seconds=5)
    closed = [next(history)["object"]["spec"].get("closed") for _ in nodes]
    history.close()
    assert closed[0] is True
    for pool in found.values():
        assert "managedFields" not in pool["metadata"]
        assert pool["spec"]["allocations"] == {}
        assert pool["metadata"]["labels"] == {
            "whereabouts-fast.io/node": pool["spec"]["node"],
            "whereabouts-fast.io/network": "blue",
        }
    counts = cluster.audit.counts(mark)
    assert counts[AGENT, "create", "ippools", 201] == 4
    assert counts[AGENT, "patch", "ippools", 200] == 4
    # A NAD and its nodes are one batch: one table, one live read of it.
    assert counts[AGENT, "create", "nodeslicepools", 201] == 1
    assert counts[AGENT, "update", "nodeslicepools", 200] == 0
    assert counts[AGENT, "get", "nodeslicepools", 200] == 1
    assert condition(api, "Ready")["status"] == "True"
    assert condition(api, "Exhausted")["status"] == "False"


def test_nodes_are_served_in_the_order_of_age_and_name(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    for name in ["n3", "n1", "n2"]:
        create_node(api, name)
    create_nad(api)
    seen = {
        n["metadata"]["name"]: n["metadata"]["creationTimestamp"] for n in api.list("/api/v1/nodes")
    }
    order = sorted(seen, key=lambda name: (seen[name], name))
    with running(cluster.kubeconfig, tmp_path):
        held = wait_table(api, lambda held: len(held) == 3)
    assert [held[cidr][0] for cidr in SLICES[:3]] == order


def test_a_later_node_gets_the_lowest_free_slice_and_one_event(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_node(api, "n1")
    create_nad(api)
    with running(cluster.kubeconfig, tmp_path) as controller:
        wait_open(api, pool_names("blue", ["n1"], SLICES[:1]))
        create_node(api, "n2")
        wait_open(api, pool_names("blue", ["n1", "n2"], SLICES[:2]))
        assert holders(api)["10.40.0.64/26"] == ("n2", "Active")
        assert controller.stop() == 0
    notes = [event["note"] for event in events(api, "NodeSliceAssigned", "ipam-system")]
    assert sorted(notes) == [
        "Assigned slice 10.40.0.0/26 to n1",
        "Assigned slice 10.40.0.64/26 to n2",
    ]


def test_huge_ranges_are_stored_sparsely(cluster: Cluster, api: Api, tmp_path: Path) -> None:
    """Case T8."""
    create_node(api, "n1")
    create_node(api, "n2")
    for name, cidr, size in [
        ("a", "10.0.0.0/8", "/27"),
        ("b", "10.0.0.0/12", "/27"),
        ("c", "10.0.0.0/8", "/24"),
        ("d", "fd10::/64", "/120"),
    ]:
        create_nad(api, name, range=cidr, node_slice_size=size)
    with running(cluster.kubeconfig, tmp_path):
        for name, second in [
            ("a", "10.0.0.32/27"),
            ("b", "10.0.0.32/27"),
            ("c", "10.0.1.0/24"),
            ("d", "fd10::100/120"),
        ]:
            held = wait_table(api, lambda held: len(held) == 2, name)
            assert nodes_of(held)["n2"] == second
    found = table(api, "d")
    assert found is not None
    assert found["status"]["free"] == 2**56 - 2
    assert len(found["status"]["allocations"]) == 2


def test_ipv6_slices(cluster: Cluster, api: Api, tmp_path: Path) -> None:
    """Case T9."""
    create_node(api, "n1")
    create_node(api, "n2")
    create_nad(api, range="fd10::/112", node_slice_size="/120")
    with running(cluster.kubeconfig, tmp_path) as controller:
        wait_open(api, {"blue-n1-fd10---120", "blue-n2-fd10--100-120"})
        assert controller.process.poll() is None
    assert holders(api) == {"fd10::/120": ("n1", "Active"), "fd10::100/120": ("n2", "Active")}


def test_two_networks_that_want_one_table_name_have_two_tables(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    """Case T7."""
    create_node(api, "n1")
    for namespace, name, cidr, size in [
        ("tenant", "x", "10.42.0.0/24", "/26"),
        ("default", "y", "10.43.0.0/24", None),
        ("default", "z", "10.44.0.0/24", "/26"),
    ]:
        create_nad(
            api,
            name,
            namespace=namespace,
            cni_name="macvlan",
            network_name=None,
            range=cidr,
            node_slice_size=size,
        )
    with running(cluster.kubeconfig, tmp_path) as controller:
        wait_open(api, {"n1-10.42.0.0-26", "n1-10.44.0.0-26"})
        tables = {item["metadata"]["name"]: item for item in api.list(TABLES)}
        # NADs of one second are told apart by their names: default/z comes before tenant/x.
        ranges = {name: item["spec"]["range"] for name, item in tables.items()}
        assert set(ranges.values()) == {"10.42.0.0/24", "10.44.0.0/24"}
        plain = ranges.pop("macvlan")
        (long,) = ranges
        other = ({"10.42.0.0/24", "10.44.0.0/24"} - {plain}).pop()
        assert long == f"macvlan-{other.replace('/', '-')}"
        controller.stop()
    for namespace in ("tenant", "default"):
        assert events(api, "ConflictingNetworkConfig", namespace) == []
        assert events(api, "OverlappingRanges", namespace) == []


def test_nads_of_one_network_share_its_slices(cluster: Cluster, api: Api, tmp_path: Path) -> None:
    create_node(api, "n1")
    create_nad(api, "blue")
    create_nad(api, "blue-too", network_name="blue")
    with running(cluster.kubeconfig, tmp_path) as controller:
        wait_open(api, {"blue-n1-10.40.0.0-26"})
        api.delete("/apis/k8s.cni.cncf.io/v1/namespaces/tenant/network-attachment-definitions/blue")
        create_node(api, "n2")
        wait_open(api, {"blue-n1-10.40.0.0-26", "blue-n2-10.40.0.64-26"})
        controller.stop()
    assert len(pools(api)) == 2
    assert events(api, "ConflictingNetworkConfig") == []


def test_slices_without_a_usable_address_are_not_dealt(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    """Cases T1 and T2: exclusions and window."""
    for name in ("n1", "n2", "n3"):
        create_node(api, name)
    create_nad(api, "holes", exclude=["10.40.0.0/30", "10.40.0.64/26"])
    create_nad(api, "window", range_start="10.40.0.10", range_end="10.40.0.100")
    with running(cluster.kubeconfig, tmp_path):
        held = wait_table(api, lambda held: len(held) == 3, "holes")
        assert set(held) == {"10.40.0.0/26", "10.40.0.128/26", "10.40.0.192/26"}
        held = wait_table(api, lambda held: len(held) == 2, "window")
        assert set(held) == {"10.40.0.0/26", "10.40.0.64/26"}
        assert condition(api, "Exhausted", "window")["status"] == "True"
        found = table(api, "window")
        assert found is not None
        assert found["status"]["waiting"] == 1


def test_an_edited_size_moves_nobody(cluster: Cluster, api: Api, tmp_path: Path) -> None:
    create_node(api, "n1")
    create_node(api, "n2")
    nad = create_nad(api)
    with running(cluster.kubeconfig, tmp_path):
        wait_open(api, pool_names("blue", ["n1", "n2"], SLICES[:2]))
        config = nad["spec"]["config"].replace('"/26"', '"/27"')
        path = "/apis/k8s.cni.cncf.io/v1/namespaces/tenant/network-attachment-definitions/blue"
        api.patch(path, {"spec": {"config": config}})
        # The node's event and that of the edit come by different watches.
        api.wait_for(TABLES, lambda items: [i["spec"]["sliceSize"] for i in items] == ["/27"])
        create_node(api, "n3")
        held = wait_table(api, lambda held: len(held) == 3)
    assert nodes_of(held) == {"n1": SLICES[0], "n2": SLICES[1], "n3": "10.40.0.128/27"}


def test_a_grown_range_keeps_its_table_and_its_slices(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    for name in ("n1", "n2", "n3"):
        create_node(api, name)
    nad = create_nad(api, range="10.40.0.0/25")
    with running(cluster.kubeconfig, tmp_path):
        before = wait_table(api, lambda held: len(held) == 2)
        config = nad["spec"]["config"].replace("10.40.0.0/25", "10.40.0.0/24")
        path = "/apis/k8s.cni.cncf.io/v1/namespaces/tenant/network-attachment-definitions/blue"
        api.patch(path, {"spec": {"config": config}})
        after = wait_table(api, lambda held: len(held) == 3)
    assert before.items() <= after.items()
    assert [item["metadata"]["name"] for item in api.list(TABLES)] == ["blue"]
