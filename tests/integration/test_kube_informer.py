"""Informers against the real API server, also one that is stopped, compacted, or silent."""

import asyncio
import os
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from hack.cluster.api import Api
from hack.cluster.audit import AuditLog
from hack.cluster.server import Cluster
from tests.integration.watched import Watched
from whereabouts_fast.kube.client import Client, Object
from whereabouts_fast.kube.resource import NODES, PODS

AGENT = "whereabouts-fast-informertest/1.0"


def node(name: str, **labels: str) -> Object:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def requests(audit: AuditLog, since: int) -> Mapping[tuple[str, int], int]:
    """Our requests by verb and code."""
    found: dict[tuple[str, int], int] = {}
    for (agent, verb, _, code), n in audit.counts(since).items():
        if agent.startswith("whereabouts-fast-informertest"):
            found[verb, code] = found.get((verb, code), 0) + n
    return found


async def test_an_informer_follows_creation_change_and_deletion(api: Api, kubeconfig: Path) -> None:
    api.create("/api/v1/nodes", node("a", colour="red"))
    async with Client.connect(str(kubeconfig), AGENT) as client:
        watched = Watched(client, NODES, metadata_only=True)
        assert not watched.informer.has_synced
        async with watched.running() as informer:
            assert informer.keys() == ["a"]
            known = informer.get("a")
            assert known is not None
            assert known["kind"] == "PartialObjectMetadata"
            assert "status" not in known
            api.create("/api/v1/nodes", node("b"))
            await watched.until(lambda now: now.get("b") is not None)
            api.patch(
                "/api/v1/nodes/b",
                [{"op": "add", "path": "/metadata/labels", "value": {"colour": "red"}}],
            )
            await watched.until(lambda now: len(now.by_index("colour", "red")) == 2)
            api.delete("/api/v1/nodes/a")
            await watched.until(lambda now: now.keys() == ["b"])
            assert len(informer.by_index("colour", "red")) == 1
    assert watched.changes == [(None, "a"), (None, "b"), ("b", "b"), ("a", None)]
    assert watched.ears.sizes == [1, 2, 1]


async def test_listing_and_watching_is_one_request(
    api: Api, cluster: Cluster, kubeconfig: Path
) -> None:
    for name in "abc":
        api.create("/api/v1/nodes", node(name))
    point = cluster.audit.mark()
    async with Client.connect(str(kubeconfig), AGENT) as client:
        watched = Watched(client, NODES)
        async with watched.running():
            api.create("/api/v1/nodes", node("d"))
            await watched.until(lambda now: len(now) == 4)
    assert requests(cluster.audit, point) == {("watch", 200): 1}


async def test_finished_pods_leave_an_informer_that_selects_them_out(
    api: Api, kubeconfig: Path
) -> None:
    path = "/api/v1/namespaces/tenant/pods"
    container = {"name": "c", "image": "i"}
    for name in "ab":
        api.create(path, {"metadata": {"name": name}, "spec": {"containers": [container]}})
    unfinished = "status.phase!=Succeeded,status.phase!=Failed"
    async with Client.connect(str(kubeconfig), AGENT) as client:
        watched = Watched(client, PODS, metadata_only=True, field_selector=unfinished)
        async with watched.running() as informer:
            assert sorted(informer.keys()) == ["tenant/a", "tenant/b"]
            change = [{"op": "add", "path": "/status/phase", "value": "Failed"}]
            api.patch(f"{path}/a/status", change)
            await watched.until(lambda now: now.keys() == ["tenant/b"])


async def test_a_watch_goes_on_where_it_was_cut_without_a_list(
    api: Api, cluster: Cluster, kubeconfig: Path
) -> None:
    for name in "abc":
        api.create("/api/v1/nodes", node(name))
    async with Client.connect(str(kubeconfig), AGENT) as client:
        watched = Watched(client, NODES)
        async with watched.running():
            pass
        api.delete("/api/v1/nodes/a")
        api.create("/api/v1/nodes", node("d"))
        point = cluster.audit.mark()
        async with watched.running():
            await watched.until(lambda now: sorted(now.keys()) == ["b", "c", "d"])
            assert ("a", None) in watched.changes
    counts = requests(cluster.audit, point)
    assert counts == {("watch", 200): 1}
    assert watched.ears.reasons == []


async def test_a_stopped_and_started_server_costs_nothing_but_time(own_cluster: Cluster) -> None:
    own_cluster.api.create("/api/v1/nodes", node("a"))
    async with Client.connect(str(own_cluster.kubeconfig), AGENT) as client:
        watched = Watched(client, NODES)
        async with watched.running() as informer:
            own_cluster.stop_server()
            await watched.ears.wait_for_reason("broken")
            assert informer.keys() == ["a"]
            # In a thread: the informer goes on asking while the server comes up.
            await asyncio.to_thread(own_cluster.start_server)
            own_cluster.api.create("/api/v1/nodes", node("b"))
            own_cluster.api.delete("/api/v1/nodes/a")
            await watched.until(lambda now: now.keys() == ["b"])
    assert watched.changes == [(None, "a"), (None, "b"), ("a", None)]


async def test_a_version_that_was_compacted_away_is_listed_again_and_the_delete_found(
    own_cluster: Cluster,
) -> None:
    api = own_cluster.api
    for name in "abc":
        api.create("/api/v1/nodes", node(name))
    async with Client.connect(str(own_cluster.kubeconfig), AGENT) as client:
        watched = Watched(client, NODES)
        async with watched.running():
            pass
        api.delete("/api/v1/nodes/a")
        api.create("/api/v1/nodes", node("d"))
        own_cluster.compact()
        # The watch cache of the running server still reaches back.
        own_cluster.stop_server()
        await asyncio.to_thread(own_cluster.start_server)
        changes = len(watched.changes)
        async with watched.running():
            await watched.until(lambda now: sorted(now.keys()) == ["b", "c", "d"])
    assert watched.ears.reasons[0] == "expired"
    assert sorted(watched.changes[changes:], key=str) == [("a", None), (None, "d")]


async def test_a_silent_server_is_left_and_found_again(own_cluster: Cluster) -> None:
    own_cluster.api.create("/api/v1/nodes", node("a"))
    pid = own_cluster.pids["kube-apiserver"]
    async with Client.connect(str(own_cluster.kubeconfig), AGENT) as client:
        watched = Watched(client, NODES, silence=2.0)
        async with watched.running():
            os.kill(pid, signal.SIGSTOP)
            try:
                await watched.ears.wait_for_reason("silent")
            finally:
                os.kill(pid, signal.SIGCONT)
            own_cluster.api.create("/api/v1/nodes", node("b"))
            await watched.until(lambda now: len(now) == 2)


async def test_without_streaming_lists_pages_of_500_are_read() -> None:
    with Cluster.start(feature_gates={"WatchList": False}, crds=False) as cluster:
        async with Client.connect(str(cluster.kubeconfig), AGENT) as client:
            await create_nodes(client, 1100)
            point = cluster.audit.mark()
            watched = Watched(client, NODES, metadata_only=True)
            async with watched.running() as informer:
                assert len(informer) == 1100
                await client.delete(NODES, None, "n7")
                await watched.until(lambda now: now.get("n7") is None)
            counts = requests(cluster.audit, point)
    assert counts["list", 200] == 3
    assert counts["watch", 200] == 1
    assert watched.ears.reasons == ["unsupported"]


async def test_a_continue_token_that_expires_restarts_the_pages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Without its watch cache the server reads each page from etcd, at the version of the first.
    with Cluster.start(
        feature_gates={"WatchList": False}, flags=["--watch-cache=false"], crds=False
    ) as cluster:
        async with Client.connect(str(cluster.kubeconfig), AGENT) as client:
            await create_nodes(client, 600)
            watched = Watched(client, NODES, metadata_only=True)
            first_pages = 0
            list_page = client.list

            async def compacting(*args: object, **options: object) -> Object:
                nonlocal first_pages
                page = await list_page(*args, **options)  # type: ignore[arg-type]
                if options["continue_token"] is None:
                    first_pages += 1
                    if first_pages == 1:
                        await client.delete(NODES, None, "n0")
                        cluster.compact()
                return page

            monkeypatch.setattr(client, "list", compacting)
            async with watched.running() as informer:
                assert len(informer) == 599
    assert first_pages == 2
    assert watched.ears.reasons == ["unsupported", "expired"]


async def create_nodes(client: Client, number: int) -> None:
    """Create so many nodes with 16 requests in flight."""
    numbers = iter(range(number))

    async def create() -> None:
        for each in numbers:
            await client.create(NODES, None, node(f"n{each}"))

    async with asyncio.TaskGroup() as group:
        for _ in range(16):
            group.create_task(create())
