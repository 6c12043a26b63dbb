"""Nodes get more slices when they run short, and give back what they do not use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hack.cluster.api import Api
from hack.cluster.server import Cluster
from tests.integration.controller_process import (
    NODES,
    POOLS,
    create_nad,
    create_node,
    drop,
    events,
    holders,
    pools,
    running,
    wait_events,
    wait_open,
    wait_table,
)
from tests.integration.test_controller_edits import edit_nad
from whereabouts_fast.ipam import naming

AGENT = "whereabouts-fast-controller"
FIRST, SECOND, THIRD, LAST = (f"blue-n1-10.40.0.{64 * at}-26" for at in range(4))


def take(api: Api, pool: str, offsets: range) -> None:
    """Record addresses in a pool, as the plugin does."""
    entries = {str(at): {"id": f"c{at}", "podref": f"tenant/p{at}"} for at in offsets}
    api.patch(f"{POOLS}/{pool}", {"spec": {"allocations": entries}})


def give_back(api: Api, pool: str, offsets: range) -> None:
    api.patch(f"{POOLS}/{pool}", {"spec": {"allocations": {str(at): None for at in offsets}}})


def want(api: Api, pool: str, who: str = "tenant/p/net1") -> None:
    """Ask for more, as the plugin does."""
    api.patch(f"{POOLS}/{pool}", {"metadata": {"annotations": {naming.ANNOTATION_WANT: who}}})


def wait_answer(api: Api, pool: str) -> dict[str, str]:
    """Wait until nothing is wanted any more; returns the answer without its prefix."""

    def notes(items: list[dict[str, Any]]) -> dict[str, str]:
        return (items[0]["metadata"].get("annotations") or {}) if items else {}

    items = api.wait_for(
        POOLS,
        lambda found: bool(notes(found)) and naming.ANNOTATION_WANT not in notes(found),
        fieldSelector=f"metadata.name={pool}",
    )
    return {key.rpartition("/")[2]: value for key, value in notes(items).items()}


def test_a_node_that_runs_short_gets_another_slice_and_one_that_wants_is_told_of_it(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_node(api, "n1")
    create_nad(api)
    with running(cluster.kubeconfig, tmp_path):
        wait_open(api, {FIRST})
        # 63 are usable: 56 leave 7, a tenth.
        take(api, FIRST, range(1, 57))
        take(api, FIRST, range(57, 58))
        wait_open(api, {FIRST, SECOND})
        take(api, FIRST, range(58, 64))
        want(api, FIRST)
        assert wait_answer(api, FIRST) == {"more": SECOND}
        assert set(holders(api)) == {"10.40.0.0/26", "10.40.0.64/26"}
        # Full again, and wanted before anybody has noticed: it is dealt before it is answered.
        take(api, SECOND, range(64))
        want(api, SECOND)
        assert wait_answer(api, SECOND) == {"more": THIRD}
        assert not pools(api)[THIRD]["spec"].get("closed")
        want(api, FIRST)
        assert wait_answer(api, FIRST) == {"more": THIRD}


def test_a_node_that_may_hold_no_more_is_refused_and_told_of_once(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    """Case T40 with node_slice_max 1, the controller's part."""
    create_node(api, "n1")
    create_nad(api, node_slice_size="/30", node_slice_max=1)
    only = "blue-n1-10.40.0.0-30"
    with running(cluster.kubeconfig, tmp_path) as controller:
        wait_open(api, {only})
        take(api, only, range(1, 4))
        for _ in range(3):
            want(api, only)
            reason = "the node holds 1 slices, and node_slice_max is 1"
            assert wait_answer(api, only) == {"refused": reason}
        (event,) = wait_events(api, "AddressesExhausted", 1)
        for word in ("blue", "10.40.0.0/24", "n1", "node_slice_max is 1", "widen the range"):
            assert word in event["note"]
        # It is told again only after there was room.
        drop(api, only, 1)
        want(api, only)
        assert wait_answer(api, only) == {"more": only}
        edit_nad(api, lambda config: config["ipam"].update(node_slice_max=2))
        take(api, only, range(1, 4))
        want(api, only)
        assert wait_answer(api, only) == {"more": "blue-n1-10.40.0.4-30"}
        assert controller.stop() == 0
    assert len(events(api, "AddressesExhausted")) == 1
    assert set(pools(api)) == {only, "blue-n1-10.40.0.4-30"}


def test_many_wants_at_once_are_one_write_of_the_table(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    nodes = [f"n{number:02d}" for number in range(40)]
    for name in nodes:
        create_node(api, name)
    create_nad(api, node_slice_size="/30", range="10.40.0.0/20")
    first = {f"blue-{name}-10.40.0.{4 * at}-30" for at, name in enumerate(nodes)}
    with running(cluster.kubeconfig, tmp_path):
        wait_open(api, first)
    # While nobody leads, all of them fill up and ask.
    for name in first:
        take(api, name, range(4))
        want(api, name)
    mark = cluster.audit.mark()
    with running(cluster.kubeconfig, tmp_path, "--idle-slice-seconds", "86399") as controller:
        for name in first:
            assert wait_answer(api, name).keys() == {"more"}
        assert controller.stop() == 0
    counts = cluster.audit.counts(mark)
    assert len(pools(api)) == 2 * len(nodes)
    assert counts[AGENT, "update", "nodeslicepools", 200] == 1
    assert counts[AGENT, "create", "ippools", 201] == len(nodes)
    # Each new pool is opened and each want answered, and that is all.
    assert counts[AGENT, "patch", "ippools", 200] == 2 * len(nodes)


def test_an_extra_slice_that_stays_empty_is_dealt_to_the_node_that_waits_for_it(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    """No event but those of the pods that went: emptiness, draining and cooling end by time."""
    create_node(api, "n1")
    create_nad(api, range="10.40.0.0/25", node_slice_cooldown=0.2)
    with running(cluster.kubeconfig, tmp_path, "--idle-slice-seconds", "1"):
        wait_open(api, {FIRST})
        take(api, FIRST, range(1, 63))
        wait_open(api, {FIRST, SECOND})
        take(api, SECOND, range(1))
        create_node(api, "n2")
        wait_events(api, "NodeSlicesExhausted", 1)
        give_back(api, FIRST, range(1, 40))
        give_back(api, SECOND, range(1))
        wait_open(api, {FIRST, "blue-n2-10.40.0.64-26"})
        held = wait_table(api, lambda held: len(held) == 2)
        assert held == {"10.40.0.0/26": ("n1", "Active"), "10.40.0.64/26": ("n2", "Active")}


def test_a_node_that_returns_gets_all_slices_back_on_which_its_pods_live(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_node(api, "n1")
    create_nad(api)
    with running(cluster.kubeconfig, tmp_path):
        wait_open(api, {FIRST})
        take(api, FIRST, range(1, 63))
        wait_open(api, {FIRST, SECOND})
        take(api, SECOND, range(10))
        api.delete(f"{NODES}/n1")
        wait_open(api, set())
        create_node(api, "n1")
        found = wait_open(api, {FIRST, SECOND})
    assert len(found[SECOND]["spec"]["allocations"]) == 10
    assert holders(api) == {"10.40.0.0/26": ("n1", "Active"), "10.40.0.64/26": ("n1", "Active")}


def test_a_lost_table_is_rebuilt_with_all_slices_of_a_node(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_node(api, "n1")
    create_nad(api)
    with running(cluster.kubeconfig, tmp_path):
        wait_open(api, {FIRST})
        take(api, FIRST, range(1, 63))
        wait_open(api, {FIRST, SECOND})
        before = holders(api)
        api.delete(
            "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/ipam-system/nodeslicepools/blue"
        )
        assert wait_table(api, lambda held: len(held) == 2) == before
        assert set(wait_open(api, {FIRST, SECOND})) == {FIRST, SECOND}


def test_networks_that_want_one_table_name_grow_each_in_its_own(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    """Case T7 with several slices per node."""
    create_node(api, "n1")
    unnamed: dict[str, Any] = {"cni_name": "macvlan", "network_name": None}
    create_nad(api, "x", range="10.42.0.0/24", **unnamed)
    with running(cluster.kubeconfig, tmp_path):
        wait_open(api, {"n1-10.42.0.0-26"})
        create_nad(api, "y", range="10.44.0.0/24", **unnamed)
        wait_open(api, {"n1-10.42.0.0-26", "n1-10.44.0.0-26"})
        for pool in ("n1-10.42.0.0-26", "n1-10.44.0.0-26"):
            take(api, pool, range(1, 64))
            want(api, pool)
            assert wait_answer(api, pool) == {"more": pool.replace("0.0-26", "0.64-26")}
    assert set(holders(api, "macvlan")) == {"10.42.0.0/26", "10.42.0.64/26"}
    assert set(holders(api, "macvlan-10.44.0.0-24")) == {"10.44.0.0/26", "10.44.0.64/26"}
    assert events(api, "ConflictingNetworkConfig") == events(api, "InvalidNetworkConfig") == []


# Edits while nodes hold several slices


def two_slices(api: Api) -> None:
    """Have n1 hold two slices with pods on both."""
    wait_open(api, {FIRST})
    take(api, FIRST, range(1, 63))
    wait_open(api, {FIRST, SECOND})
    take(api, SECOND, range(20))


def test_exclusions_that_swallow_a_slice_drain_nothing_and_its_node_gets_another(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_node(api, "n1")
    create_nad(api)
    with running(cluster.kubeconfig, tmp_path):
        two_slices(api)
        edit_nad(api, lambda config: config["ipam"].update(exclude=["10.40.0.64/26"]))
        found = wait_open(api, {FIRST, SECOND, THIRD})
        assert len(found[SECOND]["spec"]["allocations"]) == 20
        assert {state for _, state in holders(api).values()} == {"Active"}
        edit_nad(api, lambda config: config["ipam"].update(exclude=["10.40.0.0/24"]))
        create_node(api, "n2")
        wait_events(api, "NodeSlicesExhausted", 1)
        assert set(holders(api)) == {"10.40.0.0/26", "10.40.0.64/26", "10.40.0.128/26"}


def test_an_edited_size_moves_no_slice_and_growth_takes_the_new_size(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    """Case T14 with several slices per node."""
    create_node(api, "n1")
    create_nad(api)
    with running(cluster.kubeconfig, tmp_path):
        two_slices(api)
        edit_nad(api, lambda config: config["ipam"].update(node_slice_size="/27"))
        create_node(api, "n2")
        wait_open(api, {FIRST, SECOND, "blue-n2-10.40.0.128-27"})
        take(api, SECOND, range(20, 60))
        wait_open(api, {FIRST, SECOND, "blue-n2-10.40.0.128-27", "blue-n1-10.40.0.160-27"})
        drop(api, FIRST, 50)
        assert len(pools(api)[FIRST]["spec"]["allocations"]) == 61


def test_a_grown_range_gives_room_to_who_was_refused_and_a_cut_one_drains_what_is_outside(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    """Case T15 with several slices per node."""
    create_node(api, "n1")
    create_nad(api, range="10.40.0.0/25")
    with running(cluster.kubeconfig, tmp_path):
        two_slices(api)
        take(api, SECOND, range(20, 63))
        take(api, FIRST, range(1, 64))
        take(api, SECOND, range(63, 64))
        want(api, FIRST)
        assert wait_answer(api, FIRST).keys() == {"refused"}
        edit_nad(api, lambda config: config["ipam"].update(range="10.40.0.0/24"))
        wait_open(api, {FIRST, SECOND, THIRD})
        take(api, THIRD, range(5))
        give_back(api, FIRST, range(1, 40))
        edit_nad(api, lambda config: config["ipam"].update(range="10.40.0.0/25"))
        wait_open(api, {FIRST, SECOND})
        held = wait_table(api, lambda held: ("n1", "Draining") in held.values())
        assert held["10.40.0.128/26"] == ("n1", "Draining")
        give_back(api, THIRD, range(5))
        wait_table(api, lambda held: held.get("10.40.0.128/26") != ("n1", "Draining"))
        assert len(pools(api)[SECOND]["spec"]["allocations"]) == 64


# Which nodes take part


def label(api: Api, node: str, **labels: str | None) -> None:
    api.patch(f"{NODES}/{node}", {"metadata": {"labels": labels}})


def annotate(api: Api, text: str | None, nad: str = "blue") -> None:
    path = f"/apis/k8s.cni.cncf.io/v1/namespaces/tenant/network-attachment-definitions/{nad}"
    api.patch(path, {"metadata": {"annotations": {"k8s.v1.cni.cncf.io/nodeSelector": text}}})


def test_a_node_that_stops_matching_drains_like_a_deleted_one(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_node(api, "n1", labels={"role": "worker", "zone": "a"})
    create_node(api, "n2", labels={"role": "worker", "zone": "b"})
    create_node(api, "n3", labels={"role": "control-plane", "zone": "a"})
    create_nad(api, node_slice_cooldown=0.2)
    second = "blue-n2-10.40.0.64-26"
    with running(cluster.kubeconfig, tmp_path, "--node-selector", "role=worker"):
        wait_open(api, {FIRST, second})
        take(api, second, range(3))
        annotate(api, "zone in (a)")
        wait_open(api, {FIRST})
        assert holders(api)["10.40.0.64/26"] == ("n2", "Draining")
        label(api, "n2", zone="a")
        wait_open(api, {FIRST, second})
        label(api, "n1", role=None)
        wait_table(api, lambda held: held == {"10.40.0.64/26": ("n2", "Active")})
        label(api, "n3", role="worker")
        wait_open(api, {second, "blue-n3-10.40.0.0-26"})


def test_a_selector_that_cannot_be_read_changes_nobodys_slices_and_is_told(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_node(api, "n1", labels={"zone": "a"})
    create_nad(api)
    with running(cluster.kubeconfig, tmp_path) as controller:
        wait_open(api, {FIRST})
        annotate(api, "zone in a")
        (event,) = wait_events(api, "InvalidNetworkConfig", 1)
        for word in ("k8s.v1.cni.cncf.io/nodeSelector", '"zone in a"', "role=worker"):
            assert word in event["note"]
        create_node(api, "n2", labels={"zone": "a"})
        create_nad(api, "red", range="10.41.0.0/24")
        wait_open(api, {FIRST, "red-n1-10.41.0.0-26", "red-n2-10.41.0.64-26"})
        assert holders(api) == {"10.40.0.0/26": ("n1", "Active")}
        annotate(api, "zone in (a)")
        wait_open(
            api, {FIRST, SECOND.replace("n1", "n2"), "red-n1-10.41.0.0-26", "red-n2-10.41.0.64-26"}
        )
        assert not controller.entries("Failed to settle")


@pytest.mark.parametrize(("flag", "text"), [("--node-selector", "a=b,"), ("--node-selector", "=")])
def test_a_flag_that_is_no_selector_ends_the_process_with_what_to_do(
    cluster: Cluster, tmp_path: Path, flag: str, text: str
) -> None:
    with running(cluster.kubeconfig, tmp_path, f"{flag}={text}") as controller:
        assert controller.process.wait(30) == 2
        assert f"{flag}={text}" in controller.log
        assert "for instance kubernetes.io/os=linux" in controller.log
