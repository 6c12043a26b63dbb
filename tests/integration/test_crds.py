"""The custom resource definitions, judged by the API server that enforces them."""

from __future__ import annotations

from typing import Any

import pytest

from hack.cluster.api import Api, ApiError
from whereabouts_fast.kube.resource import CRDS, IPPOOLS, NODESLICEPOOLS, RESERVATIONS, Resource

NAMESPACE = "ipam-system"
KINDS = [IPPOOLS, NODESLICEPOOLS, RESERVATIONS]
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
HOLDER = {"id": "c1", "podref": "tenant/p1", "ifname": "net1"}


def body(kind: Resource, name: str, **parts: Any) -> dict[str, Any]:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        **parts,
    }


def pool(name: str = "p", **spec: Any) -> dict[str, Any]:
    return body(IPPOOLS, name, spec={"range": "10.40.0.0/24", "allocations": {}, **spec})


def table(*allocations: dict[str, Any], status: dict[str, Any] | None = None, **spec: Any) -> Any:
    return body(
        NODESLICEPOOLS,
        "t",
        spec={"range": "10.40.0.0/24", "sliceSize": "/26", **spec},
        status={"allocations": list(allocations), **(status or {})},
    )


def create(api: Api, kind: Resource, what: dict[str, Any]) -> dict[str, Any]:
    return api.create(kind.path(NAMESPACE), what)


def refusal(api: Api, kind: Resource, what: dict[str, Any]) -> str:
    with pytest.raises(ApiError) as refused:
        create(api, kind, what)
    assert refused.value.status == 422
    return refused.value.message


def told(stored: dict[str, Any]) -> dict[str, Any]:
    """What an object says, apart from what the server keeps about it."""
    kept = {k: v for k, v in stored["metadata"].items() if k in ("name", "namespace", "labels")}
    return {**stored, "metadata": kept}


WHEREABOUTS_OBJECTS = [
    (IPPOOLS, pool()),
    (IPPOOLS, pool(allocations={"1": HOLDER, "254": {"id": "", "podref": "/"}})),
    (IPPOOLS, pool(range="10.40.0.7/24")),
    (IPPOOLS, pool(range="010.040.000.000/24")),
    (IPPOOLS, pool(range="fd10::/64", allocations={str(2**63): HOLDER})),
    (IPPOOLS, pool(range="FD10:0:0::1/112")),
    (IPPOOLS, pool(range="::ffff:10.0.0.0/120")),
    (IPPOOLS, pool(range="10.40.0.5-10.40.0.9/24")),
    (IPPOOLS, pool(allocations={"5": {"id": "x", "podref": "pod without namespace"}})),
    (IPPOOLS, pool("node-1.example.test-10.40.0.0-24", allocations={"-3": HOLDER})),
    (NODESLICEPOOLS, table()),
    (NODESLICEPOOLS, table(sliceSize="26")),
    (NODESLICEPOOLS, table(range="fd10::/64", sliceSize="/120")),
    (
        NODESLICEPOOLS,
        table(
            {"nodeName": "n1", "sliceRange": "10.40.0.0/26"},
            {"nodeName": "", "sliceRange": "10.40.0.64/26"},
            {"nodeName": "n2.example.test", "sliceRange": "10.40.0.128/26"},
        ),
    ),
    (NODESLICEPOOLS, body(NODESLICEPOOLS, "t", spec={"range": "::/0", "sliceSize": "/128"})),
    (RESERVATIONS, body(RESERVATIONS, "10.40.0.7", spec={"podref": "tenant/p1"})),
    (RESERVATIONS, body(RESERVATIONS, "blue-fd10--7", spec={"podref": "/", "containerid": ""})),
    (
        RESERVATIONS,
        body(RESERVATIONS, "r", spec={"podref": "a/b", "containerid": "c1", "ifname": "net1"}),
    ),
]

OUR_OBJECTS = [
    (
        IPPOOLS,
        pool(
            node="n1",
            network="blue",
            closed=True,
            overlapping=True,
            allocations={"1": {**HOLDER, "uid": "u", "node": "n1"}},
        ),
    ),
    (
        NODESLICEPOOLS,
        table(
            {"nodeName": "n1", "sliceRange": "10.40.0.0/26", "state": "Active"},
            {
                "nodeName": "n2",
                "sliceRange": "10.40.0.64/26",
                "state": "Draining",
                "since": "2026-01-02T03:04:05.000678Z",
            },
            status={
                "active": 1,
                "draining": 1,
                "cooling": 0,
                "free": 2**63 - 1,
                "waiting": 0,
                "conditions": [
                    {
                        "type": "Ready",
                        "status": "True",
                        "reason": "Served",
                        "message": "",
                        "lastTransitionTime": "2026-01-02T03:04:05Z",
                        "observedGeneration": 1,
                    }
                ],
            },
            networkName="blue",
            network="blue",
        ),
    ),
]


@pytest.mark.parametrize(("kind", "what"), WHEREABOUTS_OBJECTS + OUR_OBJECTS)
def test_objects_come_back_without_a_field_lost_or_added(
    api: Api, kind: Resource, what: dict[str, Any]
) -> None:
    stored = create(api, kind, what)
    path = kind.path(NAMESPACE, what["metadata"]["name"])
    assert told(stored) == told(api.get(path)) == what
    # whereabouts reads, changes and sends the whole object.
    assert told(api.replace(path, {**stored})) == what


def test_a_pool_of_thousands_of_addresses_is_accepted_and_patched(api: Api) -> None:
    holders = {str(offset): HOLDER for offset in range(1, 8000)}
    create(api, IPPOOLS, pool(range="10.40.0.0/16", allocations=holders))
    add = [{"op": "add", "path": "/spec/allocations/9000", "value": HOLDER}]
    assert len(api.patch(IPPOOLS.path(NAMESPACE, "p"), add)["spec"]["allocations"]) == 8000


@pytest.mark.parametrize(
    ("kind", "what", "key"),
    [
        (IPPOOLS, body(IPPOOLS, "p"), "spec"),
        (IPPOOLS, body(IPPOOLS, "p", spec={"range": "10.40.0.0/24"}), "spec.allocations"),
        (IPPOOLS, body(IPPOOLS, "p", spec={"allocations": {}}), "spec.range"),
        (IPPOOLS, pool(range="10.40.0.0"), "spec.range"),
        (IPPOOLS, pool(range="blue/24"), "spec.range"),
        (IPPOOLS, pool(range=""), "spec.range"),
        (IPPOOLS, pool(closed=False), "spec.closed"),
        (IPPOOLS, pool(overlapping=False), "spec.overlapping"),
        (IPPOOLS, pool(closed="true"), "spec.closed"),
        (IPPOOLS, pool(allocations={"1": {"podref": "a/b"}}), "spec.allocations.1.id"),
        (IPPOOLS, pool(allocations={"1": {"id": "c"}}), "spec.allocations.1.podref"),
        (NODESLICEPOOLS, table(sliceSize="large"), "spec.sliceSize"),
        (NODESLICEPOOLS, table(sliceSize=26), "spec.sliceSize"),
        (NODESLICEPOOLS, table({"nodeName": "n1"}), "sliceRange"),
        (NODESLICEPOOLS, table({"sliceRange": "10.40.0.0/26"}), "nodeName"),
        (
            NODESLICEPOOLS,
            table({"nodeName": "n1", "sliceRange": "10.40.0.0/26", "state": "Idle"}),
            "status.allocations[0].state",
        ),
        (RESERVATIONS, body(RESERVATIONS, "r", spec={}), "spec.podref"),
    ],
)
def test_objects_that_cannot_be_right_are_refused_by_field(
    api: Api, kind: Resource, what: dict[str, Any], key: str
) -> None:
    assert key in refusal(api, kind, what)


def test_the_range_of_a_pool_cannot_change_under_its_offsets(api: Api) -> None:
    stored = create(api, IPPOOLS, pool(allocations={"1": HOLDER}))
    stored["spec"]["range"] = "10.41.0.0/24"
    with pytest.raises(ApiError, match="range cannot change") as refused:
        api.replace(IPPOOLS.path(NAMESPACE, "p"), stored)
    assert refused.value.status == 422


def test_spec_and_status_are_written_together(api: Api) -> None:
    """whereabouts writes both in one request; a status subresource would drop half of it."""
    stored = create(api, NODESLICEPOOLS, table())
    stored["spec"]["sliceSize"] = "/27"
    stored["status"]["allocations"] = [{"nodeName": "n1", "sliceRange": "10.40.0.0/27"}]
    path = NODESLICEPOOLS.path(NAMESPACE, "t")
    assert told(api.replace(path, stored)) == told(stored)
    for kind in KINDS:
        versions = api.get(CRDS.path(name=_definition(kind)))["spec"]["versions"]
        assert [version.get("subresources") for version in versions] == [None]


@pytest.mark.parametrize("kind", KINDS)
def test_definitions_are_structural_and_established(api: Api, kind: Resource) -> None:
    status = api.get(CRDS.path(name=_definition(kind)))["status"]
    conditions = {c["type"]: c["status"] for c in status["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}


def test_tables_for_people_show_what_the_objects_say(api: Api) -> None:
    create(api, *OUR_OBJECTS[0])
    create(api, *OUR_OBJECTS[1])
    create(api, RESERVATIONS, body(RESERVATIONS, "r", spec={"podref": "a/b", "ifname": "net1"}))
    assert _columns(api, IPPOOLS) == {
        "Name": "p",
        "Range": "10.40.0.0/24",
        "Node": "n1",
        "Network": "blue",
        "Closed": True,
    }
    assert _columns(api, NODESLICEPOOLS) == {
        "Name": "t",
        "Range": "10.40.0.0/24",
        "Slice Size": "/26",
        "Active": 1,
        "Free": 2**63 - 1,
        "Waiting": 0,
        "Ready": "True",
    }
    assert _columns(api, RESERVATIONS) == {"Name": "r", "Pod": "a/b", "Interface": "net1"}


def test_short_names(api: Api) -> None:
    found = api.get("/apis/whereabouts.cni.cncf.io/v1alpha1")["resources"]
    assert {r["kind"]: r.get("shortNames") for r in found} == {
        "IPPool": ["wbpool"],
        "NodeSlicePool": ["wbslices"],
        "OverlappingRangeIPReservation": ["wbres"],
    }


def _definition(kind: Resource) -> str:
    return f"{kind.plural}.whereabouts.cni.cncf.io"


def _columns(api: Api, kind: Resource) -> dict[str, Any]:
    shown = api.request("GET", kind.path(NAMESPACE), headers={"Accept": TABLE})
    names = [column["name"] for column in shown["columnDefinitions"]]
    (row,) = shown["rows"]
    cells = dict(zip(names, row["cells"], strict=True))
    assert cells.pop("Age")
    return cells
