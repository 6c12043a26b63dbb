"""Bad, foreign, conflicting and overlapping NADs: one event each, and nobody else suffers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hack.cluster.api import Api
from hack.cluster.commands import SYSTEM_NAMESPACE
from hack.cluster.server import Cluster
from tests.integration.controller_process import (
    TABLES,
    condition,
    create_nad,
    create_node,
    events,
    nad_path,
    running,
    table,
    wait_events,
    wait_open,
    wait_table,
)

AGENT = "whereabouts-fast-controller"


def ipam(**keys: object) -> str:
    section = {"type": "whereabouts", "range": "10.50.0.0/24", **keys}
    section = {key: value for key, value in section.items() if value is not None}
    return json.dumps({"cniVersion": "1.0.0", "name": "p", "type": "macvlan", "ipam": section})


# NAD name -> (config, words of its event)
POISON = {
    "no-type": ("{}", ["type", "missing"]),
    "name-only": ('{"name":"x"}', ["type", "missing"]),
    "no-plugins": ('{"name":"x","plugins":[]}', ["plugins", "[]"]),
    "null-plugin": ('{"plugins":[null]}', ["plugins[0]", "null"]),
    "not-json": ("{not json", ["config", "{not json", "not JSON"]),
    "no-range": (ipam(range=None, node_slice_size="/26"), ["range", "missing"]),
    "long-size": (ipam(node_slice_size="/33"), ["ipam.node_slice_size", "/33"]),
    "word-size": (ipam(node_slice_size="abc"), ["ipam.node_slice_size", "abc"]),
    "no-size": (ipam(node_slice_size=""), ["ipam.node_slice_size", '""']),
    "minus-size": (ipam(node_slice_size="/-1"), ["ipam.node_slice_size", "/-1"]),
    "short-size": (ipam(node_slice_size="/20"), ["ipam.node_slice_size", "/20"]),
    "mapped": (
        ipam(range="::ffff:10.0.0.0/120", node_slice_size="/124"),
        ["ipam.range", "::ffff:10.0.0.0/120"],
    ),
}
FOREIGN = {
    "empty": "",
    "other": '{"name":"o","type":"macvlan","ipam":{"type":"host-local"}}',
    "without-ipam": '{"name":"o","type":"sbr"}',
}


def test_poison_gets_one_event_each_and_stops_nobody(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    """Case T10."""
    for name, (text, _) in POISON.items():
        create_nad(api, name, text=text)
    for name, text in FOREIGN.items():
        create_nad(api, name, text=text)
    create_node(api, "n1")
    create_nad(api)
    create_nad(api, "number", range="10.60.0.0/24", node_slice_size=26)
    with running(cluster.kubeconfig, tmp_path) as controller:
        wait_open(api, {"blue-n1-10.40.0.0-26", "number-n1-10.60.0.0-26"})
        found = wait_events(api, "InvalidNetworkConfig", len(POISON))
        wait_events(api, "NodeSliceAssigned", 2, SYSTEM_NAMESPACE)
        quiet = cluster.audit.mark()
        create_node(api, "n2")
        wait_table(api, lambda held: len(held) == 2)
        wait_table(api, lambda held: len(held) == 2, "number")
        assert controller.stop() == 0
    notes = {event["regarding"]["name"]: event["note"] for event in found}
    assert notes.keys() == POISON.keys()
    for name, (_, words) in POISON.items():
        assert [word for word in words if word not in notes[name]] == [], notes[name]
    # No hot loop: another sync tells nothing again.
    assert len(events(api, "InvalidNetworkConfig")) == len(POISON)
    later = cluster.audit.counts(quiet)
    assert sum(n for key, n in later.items() if key[0] == AGENT and key[2] == "events") <= 2
    assert not controller.entries("Failed to settle")


def test_a_corrected_nad_is_served_and_a_new_mistake_is_told(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_node(api, "n1")
    good: dict[str, Any] = create_nad(api)
    path = f"{nad_path()}/blue"
    api.patch(path, {"spec": {"config": ipam(node_slice_size="/33")}})
    with running(cluster.kubeconfig, tmp_path):
        wait_events(api, "InvalidNetworkConfig", 1)
        api.patch(path, {"spec": good["spec"]})
        wait_open(api, {"blue-n1-10.40.0.0-26"})
        api.patch(path, {"spec": {"config": ipam(node_slice_size="/34")}})
        api.wait_for(
            "/apis/events.k8s.io/v1/namespaces/tenant/events",
            lambda items: any("/34" in i["note"] for i in items),
        )


def test_an_unknown_key_is_served_with_a_warning(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_node(api, "n1")
    create_nad(api, rangeStart="10.40.0.9")
    with running(cluster.kubeconfig, tmp_path):
        wait_open(api, {"blue-n1-10.40.0.0-26"})
        (event,) = wait_events(api, "InvalidNetworkConfig", 1)
    assert "rangeStart" in event["note"]
    assert "did you mean range_start" in event["note"]


def test_of_overlapping_networks_under_one_name_the_older_is_served(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_node(api, "n1")
    create_nad(api, "a-first", cni_name="x", network_name=None, range="10.40.0.0/24")
    create_nad(api, "b-second", cni_name="x", network_name=None, range="10.40.0.0/16")
    create_nad(api, "c-apart", network_name="apart", range="10.40.0.0/16")
    with running(cluster.kubeconfig, tmp_path):
        wait_open(api, {"n1-10.40.0.0-26", "apart-n1-10.40.0.0-26"})
        (event,) = wait_events(api, "OverlappingRanges", 1)
        assert event["regarding"]["name"] == "b-second"
        for word in ("10.40.0.0/16", "10.40.0.0/24", "tenant/a-first"):
            assert word in event["note"]
        assert table(api, "x-10.40.0.0-16") is None
        # When the way is free, the other gets its turn without being touched.
        api.delete(f"{nad_path()}/a-first")
        wait_table(api, lambda held: len(held) == 1 and "Active" in str(held), "x")


def test_the_oldest_decides_where_nads_of_one_network_disagree(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_node(api, "n1")
    create_nad(api, "a")
    create_nad(api, "b", network_name="a", node_slice_size="/27")
    with running(cluster.kubeconfig, tmp_path):
        wait_open(api, {"a-n1-10.40.0.0-26"})
        (event,) = wait_events(api, "ConflictingNetworkConfig", 1)
    assert event["regarding"]["name"] == "b"
    for word in ("node_slice_size", "tenant/a"):
        assert word in event["note"]


def test_an_unreadable_table_is_left_alone_and_told(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_node(api, "n1")
    for name in ("blue", "red"):
        create_nad(api, name)
    bad = [{"nodeName": "n9", "sliceRange": "10.40.999.0/26"}]
    broken = {
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
        "kind": "NodeSlicePool",
        "metadata": {"name": "blue"},
        "spec": {"range": "10.40.0.0/24", "sliceSize": "/26"},
        "status": {"allocations": bad},
    }
    api.create(TABLES, broken)
    with running(cluster.kubeconfig, tmp_path):
        wait_open(api, {"red-n1-10.40.0.0-26"})
        (event,) = wait_events(api, "InvalidNetworkConfig", 1)
        assert "10.40.999.0/26" in event["note"]
        assert event["regarding"]["name"] == "blue"
        found = table(api)
        assert found is not None
        # How long it has been bad decides whether the condition that says so is there already.
        assert found["status"]["allocations"] == bad
        broken["metadata"] = found["metadata"]
        broken["status"] = {"allocations": [{"nodeName": "n1", "sliceRange": "10.40.0.64/26"}]}
        api.replace(f"{TABLES}/blue", broken)
        held = wait_table(api, lambda held: bool(condition(api, "Ready")))
        assert held == {"10.40.0.64/26": ("n1", "Active")}
        wait_open(api, {"red-n1-10.40.0.0-26", "blue-n1-10.40.0.64-26"})


def test_a_node_with_too_long_a_name_is_told_and_others_are_served(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    long = ".".join(["n" * 60] * 4)
    create_node(api, long)
    create_node(api, "n1")
    create_nad(api)
    with running(cluster.kubeconfig, tmp_path) as controller:
        wait_open(api, {"blue-n1-10.40.0.0-26"})
        (event,) = wait_events(api, "InvalidNetworkConfig", 1)
        assert long in event["note"]
        assert not controller.entries("Failed to settle")
