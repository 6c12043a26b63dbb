"""Networks without node_slice_size: one pool for all nodes, opened by the controller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hack.cluster.api import Api
from hack.cluster.server import Cluster
from tests.integration.controller_process import (
    POOLS,
    create_nad,
    create_node,
    drop,
    events,
    fill,
    find,
    holders,
    nad_path,
    pools,
    running,
    table,
    wait_gone,
    wait_open,
)

AGENT = "whereabouts-fast-controller"
BLUE = "blue-10.40.0.0-24"
ATTACHED = "whereabouts-fast.io/attached"


def classic(api: Api, name: str = "blue", **ipam: Any) -> dict[str, Any]:
    return create_nad(api, name, node_slice_size=None, **ipam)


def written_by_whereabouts(api: Api, name: str, cidr: str, **spec: object) -> dict[str, Any]:
    allocations = {"5": {"id": "c-5", "podref": "tenant/p5", "ifname": "net1"}}
    body = {
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
        "kind": "IPPool",
        "metadata": {"name": name},
        "spec": {"range": cidr, "allocations": allocations, **spec},
    }
    return api.create(POOLS, body)


def test_a_classic_network_gets_one_open_pool_in_two_writes(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    for name in ("n1", "n2"):
        create_node(api, name)
    with running(cluster.kubeconfig, tmp_path) as controller:
        controller.wait(lambda: controller.entries("Began to lead"), "it leads")
        mark = cluster.audit.mark()
        classic(api)
        found = wait_open(api, {BLUE})
        assert controller.stop() == 0
    (pool,) = found.values()
    assert pool["spec"] == {"range": "10.40.0.0/24", "allocations": {}, "network": "blue"}
    assert "managedFields" not in pool["metadata"]
    assert pool["metadata"]["labels"] == {"whereabouts-fast.io/network": "blue"}
    assert table(api) is None
    counts = cluster.audit.counts(mark)
    writes = {
        key[1:]: n
        for key, n in counts.items()
        if key[0] == AGENT and key[2] == "ippools" and key[1] not in ("list", "watch")
    }
    assert writes == {("create", "ippools", 201): 1, ("patch", "ippools", 200): 1}


def test_each_range_of_a_classic_network_has_its_pool(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    more = [{"range": "10.41.0.7/24"}, {"range": "fd10::/64"}]
    classic(api, network_name=None, ipRanges=more)
    with running(cluster.kubeconfig, tmp_path):
        wait_open(api, {"10.40.0.0-24", "10.41.0.0-24", "fd10---64"})


def test_nads_of_one_range_share_its_pool_until_the_last_one_goes(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        classic(api, name, network_name=None)
    with running(cluster.kubeconfig, tmp_path):
        wait_open(api, {"10.40.0.0-24"})
        uid = pools(api)["10.40.0.0-24"]["metadata"]["uid"]
        fill(api, "10.40.0.0-24", 7)
        api.delete(f"{nad_path()}/a")
        # Something that is served after it: by then it has been looked at.
        classic(api, "c", range="10.50.0.0/24")
        wait_open(api, {"10.40.0.0-24", "c-10.50.0.0-24"})
        api.delete(f"{nad_path()}/b")
        wait_open(api, {"c-10.50.0.0-24"})
        kept = pools(api)["10.40.0.0-24"]
        assert (kept["metadata"]["uid"], kept["spec"]["closed"]) == (uid, True)
        assert list(kept["spec"]["allocations"]) == ["7"]
        assert events(api, "OverlappingRanges") == []
        drop(api, "10.40.0.0-24", 7)
        wait_gone(api, POOLS, "10.40.0.0-24")


def test_a_nad_that_comes_back_finds_its_pool_with_its_addresses(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    nad = classic(api)
    with running(cluster.kubeconfig, tmp_path) as controller:
        uid = wait_open(api, {BLUE})[BLUE]["metadata"]["uid"]
        fill(api, BLUE, 7)
        controller.kill()
        api.delete(f"{nad_path()}/blue")
    with running(cluster.kubeconfig, tmp_path):
        # The pool itself says that it was a NAD's: no memory of it is needed.
        wait_open(api, set())
        api.create(nad_path(), {**nad, "metadata": {"name": "blue", "namespace": "tenant"}})
        found = wait_open(api, {BLUE})[BLUE]
    assert found["metadata"]["uid"] == uid
    assert list(found["spec"]["allocations"]) == ["7"]


def test_a_pool_that_whereabouts_wrote_is_adopted_as_it_is(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    names = {BLUE: "blue", "10.41.0.0-24": "green"}
    written_by_whereabouts(api, BLUE, "10.40.0.0/24")
    # Older versions copied what the user had typed.
    written_by_whereabouts(api, "10.41.0.0-24", "10.41.0.7/24")
    # Of no NAD: it belongs to a configuration that lies on a node.
    foreign = written_by_whereabouts(api, "10.42.0.0-24", "10.42.0.0/24")
    classic(api)
    classic(api, "green", network_name=None, range="10.41.0.0/24")
    with running(cluster.kubeconfig, tmp_path) as controller:
        mark = cluster.audit.mark()
        for name in names:
            api.wait_for(
                POOLS,
                lambda items: bool(items[0]["metadata"].get("annotations")),
                fieldSelector=f"metadata.name={name}",
            )
        for name, network in names.items():
            pool = pools(api)[name]
            assert pool["metadata"]["annotations"] == {ATTACHED: "true"}
            assert pool["spec"]["network"] == network
            assert not pool["spec"].get("closed")
            assert list(pool["spec"]["allocations"]) == ["5"]
        for name in ("blue", "green"):
            api.delete(f"{nad_path()}/{name}")
        wait_open(api, {"10.42.0.0-24"})
        assert (
            pools(api)["10.42.0.0-24"]["metadata"]["resourceVersion"]
            == (foreign["metadata"]["resourceVersion"])
        )
        for name in names:
            drop(api, name, 5)
            wait_gone(api, POOLS, name)
        assert controller.stop() == 0
    counts = cluster.audit.counts(mark)
    assert not [key for key in counts if key[0] == AGENT and key[3] == 422]


def test_a_closed_pool_of_no_nad_is_opened_for_the_node_that_made_it(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    """A configuration that lies in a file on a node: its plugin creates the pool, closed."""
    with running(cluster.kubeconfig, tmp_path) as controller:
        controller.wait(lambda: controller.entries("Began to lead"), "it leads")
        written_by_whereabouts(api, BLUE, "10.40.0.0/24", network="blue", closed=True)
        wait_open(api, {BLUE})
        # A NAD that asks for it makes it a NAD's pool.
        classic(api)
        api.wait_for(POOLS, lambda items: bool(items[0]["metadata"].get("annotations")))
        api.delete(f"{nad_path()}/blue")
        wait_open(api, set())


def test_two_nads_of_one_name_do_not_meddle(cluster: Cluster, api: Api, tmp_path: Path) -> None:
    """Case T7."""
    create_node(api, "n1")
    create_nad(
        api, "x", cni_name="macvlan", network_name=None, range="10.42.0.0/24",
        ipRanges=[{"range": "10.44.0.0/24"}],
    )  # fmt: skip
    classic(
        api, "y", namespace="default", cni_name="macvlan", network_name=None, range="10.43.0.0/24"
    )
    with running(cluster.kubeconfig, tmp_path):
        wait_open(api, {"n1-10.42.0.0-26", "n1-10.44.0.0-26", "10.43.0.0-24"})
        assert list(holders(api, "macvlan")) == ["10.42.0.0/26"]
        assert list(holders(api, "macvlan-10.44.0.0-24")) == ["10.44.0.0/26"]
        for namespace in ("tenant", "default"):
            found = api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")["items"]
            assert [e for e in found if e["type"] == "Warning"] == []
    assert find(api, f"{POOLS}/10.43.0.0-24") is not None
