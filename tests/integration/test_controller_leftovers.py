"""What whereabouts left of dead nodes goes; what is in use, or somebody else's, stays."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from hack.cluster.api import Api
from hack.cluster.server import Cluster
from tests.integration.controller_process import (
    LEASES,
    POOLS,
    TABLES,
    create_nad,
    create_node,
    running,
    wait_table,
)
from tests.integration.pods import QUICK, create_pod

OFTEN = (*QUICK, "--leak-sweep-period", "0.5")


def lease(api: Api, name: str, holder: str = "tenant/p1") -> None:
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 1},
    }
    api.create(LEASES, body)


def pool(api: Api, name: str, cidr: str, **allocations: Any) -> None:
    """A pool as whereabouts writes it."""
    spec = {"range": cidr, "allocations": {k[1:]: v for k, v in allocations.items()}}
    body = {
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
        "kind": "IPPool",
        "metadata": {"name": name},
        "spec": spec,
    }
    api.create(POOLS, body)


def names(items: list[dict[str, Any]]) -> set[str]:
    return {item["metadata"]["name"] for item in items}


def test_leases_of_slices_whose_node_is_gone_are_deleted(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_node(api, "n1")
    lease(api, "dead-10.40.0.0-26")
    lease(api, "blue-dead-10.40.0.64-26", "")
    kept = {"blue-n1-10.40.0.128-26", "whereabouts", "dead-10.40.0.192-26"}
    lease(api, "blue-n1-10.40.0.128-26")
    lease(api, "whereabouts")
    lease(api, "dead-10.40.0.192-26", "some-component")
    with running(cluster.kubeconfig, tmp_path, *OFTEN):
        api.wait_for(LEASES, lambda items: names(items) == {*kept, "whereabouts-fast-controller"})


def test_a_lease_that_is_renewed_is_left(cluster: Cluster, api: Api, tmp_path: Path) -> None:
    lease(api, "dead-10.40.0.0-26")
    lease(api, "idle-10.40.0.64-26")
    with running(cluster.kubeconfig, tmp_path, *OFTEN):
        transitions = itertools.count(1)

        def renewed(items: list[dict[str, Any]]) -> bool:
            patch = {"spec": {"leaseTransitions": next(transitions)}}
            api.patch(f"{LEASES}/dead-10.40.0.0-26", patch)
            return "idle-10.40.0.64-26" not in names(items)

        api.wait_for(LEASES, renewed)
        assert "dead-10.40.0.0-26" in names(api.get(LEASES)["items"])


def test_empty_pools_of_slices_whose_node_is_gone_are_deleted(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_node(api, "n1")
    table = {
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
        "kind": "NodeSlicePool",
        "metadata": {"name": "blue"},
        "spec": {"range": "10.40.0.0/24", "sliceSize": "/26"},
        "status": {"allocations": [{"nodeName": "n1", "sliceRange": "10.40.0.0/26"}]},
    }
    api.create(TABLES, table)
    held = {"id": "c", "podref": "tenant/lives", "ifname": "net1"}
    create_pod(api, "lives")
    pool(api, "n1-10.40.0.0-26", "10.40.0.0/26")
    pool(api, "dead-10.40.0.64-26", "10.40.0.64/26", _5={**held, "podref": "tenant/gone"})
    pool(api, "used-10.40.0.128-26", "10.40.0.128/26", _5=held)
    # As large as no slice, or of no network in slices: perhaps a network_name.
    pool(api, "dead-10.40.0.192-27", "10.40.0.192/27")
    pool(api, "dead-10.77.0.0-26", "10.77.0.0/26")
    create_nad(api, cni_name="blue", network_name=None)
    with running(cluster.kubeconfig, tmp_path, *OFTEN):
        expected = {
            *("n1-10.40.0.0-26", "used-10.40.0.128-26"),
            *("dead-10.40.0.192-27", "dead-10.77.0.0-26"),
        }
        api.wait_for(POOLS, lambda items: names(items) == expected)
        create_node(api, "n2")
        found = wait_table(api, lambda held: len(held) == 2)
        assert found["10.40.0.64/26"] == ("n2", "Active")
