"""Draining, cooling and reclaiming, and what brings a slice back to its node."""

from __future__ import annotations

from pathlib import Path

from hack.cluster.api import Api
from hack.cluster.server import Cluster
from tests.integration.controller_process import (
    NODES,
    POOLS,
    TABLES,
    condition,
    create_nad,
    create_node,
    drop,
    events,
    fill,
    holders,
    nad_path,
    pools,
    running,
    wait_events,
    wait_gone,
    wait_open,
    wait_table,
)

FIRST, SECOND, THIRD = "10.40.0.0/26", "10.40.0.64/26", "10.40.0.128/26"


def test_a_waiting_node_is_served_when_a_slice_comes_free(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    """Case T11."""
    create_node(api, "a")
    create_nad(api, range="10.40.0.0/25", node_slice_cooldown=1)
    with running(cluster.kubeconfig, tmp_path):
        wait_open(api, {"blue-a-10.40.0.0-26"})
        create_node(api, "b")
        wait_open(api, {"blue-a-10.40.0.0-26", "blue-b-10.40.0.64-26"})
        create_node(api, "c")
        (warning,) = wait_events(api, "NodeSlicesExhausted", 1)
        assert "1 node waits for a slice: c" in warning["note"]
        assert warning["type"] == "Warning"
        assert warning["regarding"]["name"] == "blue"
        exhausted = condition(api, "Exhausted")
        assert exhausted["status"] == "True"
        assert "1 node waits for a slice: c" in exhausted["message"]
        api.delete(f"{NODES}/a")
        held = wait_table(api, lambda held: held.get(FIRST) == ("c", "Active"))
        assert held == {FIRST: ("c", "Active"), SECOND: ("b", "Active")}
        wait_open(api, {"blue-c-10.40.0.0-26", "blue-b-10.40.0.64-26"})
        assert condition(api, "Exhausted")["status"] == "False"
        assert condition(api, "Ready")["status"] == "True"
    assert len(events(api, "NodeSlicesExhausted")) == 1


def test_a_slice_with_a_live_address_is_kept_until_it_is_empty(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    """Case T12."""
    create_node(api, "a")
    create_node(api, "b")
    create_nad(api, node_slice_cooldown=1)
    with running(cluster.kubeconfig, tmp_path) as controller:
        wait_open(api, {"blue-a-10.40.0.0-26", "blue-b-10.40.0.64-26"})
        fill(api, "blue-a-10.40.0.0-26", 5)
        api.delete(f"{NODES}/a")
        create_node(api, "c")
        held = wait_table(api, lambda held: THIRD in held)
        assert held[THIRD] == ("c", "Active")
        held = wait_table(api, lambda held: held[FIRST][1] == "Draining")
        found = wait_open(api, {"blue-b-10.40.0.64-26", "blue-c-10.40.0.128-26"})
        assert found["blue-a-10.40.0.0-26"]["spec"]["allocations"].keys() == {"5"}
        drop(api, "blue-a-10.40.0.0-26", 5)
        wait_table(api, lambda held: held[FIRST] == ("a", "Cooling"))
        assert "blue-a-10.40.0.0-26" not in pools(api)
        wait_table(api, lambda held: FIRST not in held)
        assert controller.stop() == 0
    (reclaimed,) = events(api, "NodeSliceReclaimed", "ipam-system")
    assert reclaimed["note"] == "Reclaimed slice 10.40.0.0/26 of a"


def test_a_slice_that_its_range_lost_is_not_counted_as_a_lost_node(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        create_node(api, name)
    nad = create_nad(api, node_slice_cooldown=1)
    with running(cluster.kubeconfig, tmp_path) as controller:
        wait_open(api, {"blue-a-10.40.0.0-26", "blue-b-10.40.0.64-26"})
        smaller = nad["spec"]["config"].replace("10.40.0.0/24", "10.40.0.0/26")
        api.patch(f"{nad_path()}/blue", {"spec": {"config": smaller}})
        wait_table(api, lambda held: set(held) == {FIRST})
        (line,) = controller.wait(
            lambda: controller.entries("Reclaimed slices"), "the slice is reclaimed"
        )
    assert (line["node"], line["reason"]) == ("b", "network_changed")


def test_a_node_that_returns_gets_the_same_slice(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    """Case T13."""
    create_node(api, "a")
    create_node(api, "b")
    create_nad(api, node_slice_cooldown=60)
    with running(cluster.kubeconfig, tmp_path):
        wait_open(api, {"blue-a-10.40.0.0-26", "blue-b-10.40.0.64-26"})
        fill(api, "blue-a-10.40.0.0-26", 5)
        for name in ("a", "b"):
            api.delete(f"{NODES}/{name}")
        wait_table(api, lambda held: held[FIRST][1] == "Draining")
        wait_table(api, lambda held: held[SECOND][1] == "Cooling")
        wait_open(api, set())
        create_node(api, "c")
        create_node(api, "b")
        create_node(api, "a")
        found = wait_open(
            api, {"blue-a-10.40.0.0-26", "blue-b-10.40.0.64-26", "blue-c-10.40.0.128-26"}
        )
        assert found["blue-a-10.40.0.0-26"]["spec"]["allocations"].keys() == {"5"}
        assert holders(api) == {
            FIRST: ("a", "Active"),
            SECOND: ("b", "Active"),
            THIRD: ("c", "Active"),
        }


def test_a_node_replaced_within_a_moment_keeps_its_slice(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_node(api, "a")
    create_nad(api)
    with running(cluster.kubeconfig, tmp_path):
        wait_open(api, {"blue-a-10.40.0.0-26"})
        fill(api, "blue-a-10.40.0.0-26", 5)
        api.delete(f"{NODES}/a")
        create_node(api, "a")
        create_node(api, "z")
        found = wait_open(api, {"blue-a-10.40.0.0-26", "blue-z-10.40.0.64-26"})
        assert "5" in found["blue-a-10.40.0.0-26"]["spec"]["allocations"]


def test_a_node_being_deleted_is_still_a_node(cluster: Cluster, api: Api, tmp_path: Path) -> None:
    """Case T16."""
    create_node(api, "a", finalizers=["example.test/keep"])
    create_nad(api)
    with running(cluster.kubeconfig, tmp_path):
        wait_open(api, {"blue-a-10.40.0.0-26"})
        api.delete(f"{NODES}/a")
        create_node(api, "b")
        wait_open(api, {"blue-a-10.40.0.0-26", "blue-b-10.40.0.64-26"})
        assert holders(api)[FIRST] == ("a", "Active")
        api.patch(f"{NODES}/a", [{"op": "remove", "path": "/metadata/finalizers"}])
        wait_table(api, lambda held: held[FIRST][1] != "Active")


def test_a_node_that_is_not_ready_keeps_its_slice(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_node(api, "a")
    create_nad(api)
    with running(cluster.kubeconfig, tmp_path):
        wait_open(api, {"blue-a-10.40.0.0-26"})
        before = api.get(f"{TABLES}/blue")["metadata"]["resourceVersion"]
        status = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
        api.patch(f"{NODES}/a/status", status)
        create_nad(api, "later")
        wait_open(api, {"blue-a-10.40.0.0-26", "later-a-10.40.0.0-26"})
        assert api.get(f"{TABLES}/blue")["metadata"]["resourceVersion"] == before


def test_a_network_without_nad_drains_and_its_table_goes_last(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_node(api, "a")
    create_node(api, "b")
    create_nad(api, node_slice_cooldown=1)
    with running(cluster.kubeconfig, tmp_path):
        wait_open(api, {"blue-a-10.40.0.0-26", "blue-b-10.40.0.64-26"})
        fill(api, "blue-a-10.40.0.0-26", 5)
        api.delete(f"{nad_path()}/blue")
        held = wait_table(api, lambda held: SECOND not in held)
        assert held == {FIRST: ("a", "Draining")}
        found = wait_open(api, set())
        assert found.keys() == {"blue-a-10.40.0.0-26"}
        drop(api, "blue-a-10.40.0.0-26", 5)
        wait_gone(api, TABLES, "blue")
        assert pools(api) == {}


def test_pools_without_nad_and_table_go_when_they_are_empty(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    """Case T5, the controller's part."""
    create_node(api, "a")
    create_nad(api)
    with running(cluster.kubeconfig, tmp_path) as controller:
        wait_open(api, {"blue-a-10.40.0.0-26"})
        fill(api, "blue-a-10.40.0.0-26", 5)
        controller.stop()
    api.delete(f"{nad_path()}/blue")
    api.delete(f"{TABLES}/blue")
    with running(cluster.kubeconfig, tmp_path):
        found = wait_open(api, set())
        assert "5" in found["blue-a-10.40.0.0-26"]["spec"]["allocations"]
        drop(api, "blue-a-10.40.0.0-26", 5)
        wait_gone(api, POOLS, "blue-a-10.40.0.0-26")


def test_a_deleted_table_is_rebuilt_and_nobody_moves(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    for name in ("a", "b", "c"):
        create_node(api, name)
    create_nad(api)
    with running(cluster.kubeconfig, tmp_path) as controller:
        before = wait_table(api, lambda held: len(held) == 3)
        names = {"blue-a-10.40.0.0-26", "blue-b-10.40.0.64-26", "blue-c-10.40.0.128-26"}
        wait_open(api, names)
        old = api.delete(f"{TABLES}/blue")
        api.wait_for(
            TABLES,
            lambda items: any(
                i["metadata"]["uid"] not in (old.get("details") or {}).get("uid", "") for i in items
            ),
        )
        assert wait_table(api, lambda held: len(held) == 3) == before
        assert set(wait_open(api, names)) == names
        # The other way round: the order of names is not the order of slices any more.
        controller.stop()
    for name in ("a", "b"):
        api.delete(f"{POOLS}/blue-{name}-{'10.40.0.0' if name == 'a' else '10.40.0.64'}-26")
    api.delete(f"{TABLES}/blue")
    with running(cluster.kubeconfig, tmp_path):
        held = wait_table(api, lambda held: len(held) == 3)
        assert held[THIRD] == ("c", "Active")


def test_a_nad_replaced_by_force_moves_nobody(cluster: Cluster, api: Api, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        create_node(api, name)
    create_nad(api)
    with running(cluster.kubeconfig, tmp_path):
        before = wait_table(api, lambda held: len(held) == 3)
        names = {"blue-a-10.40.0.0-26", "blue-b-10.40.0.64-26", "blue-c-10.40.0.128-26"}
        wait_open(api, names)
        fill(api, "blue-b-10.40.0.64-26", 1)
        api.delete(f"{nad_path()}/blue")
        create_nad(api)
        after = wait_table(
            api, lambda held: len(held) == 3 and {s for _, s in held.values()} == {"Active"}
        )
        assert after == before
        assert "1" in wait_open(api, names)["blue-b-10.40.0.64-26"]["spec"]["allocations"]
