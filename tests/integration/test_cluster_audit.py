"""Request counts from the audit log are exact, whatever the outcome of the requests."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from hack.cluster.api import Api, ApiError, JsonObject
from hack.cluster.server import Cluster
from whereabouts_fast.kube.resource import NODES, PODS, SERVICE_ACCOUNTS


def _node(name: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def _of(counts: Counter[tuple[str, str, str, int]], agent: str) -> dict[tuple[str, str, int], int]:
    return {key[1:]: number for key, number in counts.items() if key[0] == agent}


def _client(cluster: Cluster, agent: str, token: str | None = None) -> Api:
    return Api(cluster.server, cluster.ca_file, token or cluster.token, user_agent=agent)


def test_counts_by_agent_verb_resource_and_code(cluster: Cluster, api: Api) -> None:
    begin = cluster.audit.mark()
    with _client(cluster, "counted/1.2") as client:
        client.create(NODES.path(), _node("n1"))
        client.get(NODES.path(name="n1"))
        client.list(NODES.path())
        client.patch(NODES.path(name="n1"), {"metadata": {"labels": {"a": "b"}}})
        client.exchange("GET", NODES.path(name="absent"))
        client.exchange("POST", NODES.path(), _node("n1"))
        client.exchange("PATCH", NODES.path(name="n1") + "/status", {})
        client.exchange("GET", PODS.path("tenant", "absent") + "/log")
        client.get("/version")
        client.delete(NODES.path(name="n1"))
    assert _of(cluster.audit.counts(begin), "counted") == {
        ("create", "nodes", 201): 1,
        ("get", "nodes", 200): 1,
        ("list", "nodes", 200): 1,
        ("patch", "nodes", 200): 1,
        ("get", "nodes", 404): 1,
        ("create", "nodes", 409): 1,
        ("patch", "nodes/status", 415): 1,
        ("get", "pods/log", 404): 1,
        ("get", "/version", 200): 1,
        ("delete", "nodes", 200): 1,
    }


def test_counts_what_was_refused_before_any_handler(cluster: Cluster, api: Api) -> None:
    token = cluster.service_account_token("tenant")
    begin = cluster.audit.mark()
    with (
        _client(cluster, "counted/1", "wrong") as unknown,
        _client(cluster, "counted/1", token) as powerless,
    ):
        assert unknown.exchange("GET", NODES.path()).status == 401
        assert powerless.exchange("GET", NODES.path()).status == 403
    requests = [r for r in cluster.audit.entries(begin) if r.agent == "counted"]
    assert [(r.verb, r.code, r.user) for r in requests] == [
        ("list", 401, ""),
        ("list", 403, "system:serviceaccount:tenant:default"),
    ]


def test_a_burst_is_counted_to_the_last_request_however_soon_one_asks(
    cluster: Cluster, api: Api
) -> None:
    for turn in range(5):
        begin = cluster.audit.mark()
        with _client(cluster, f"burst-{turn}/1") as client, ThreadPoolExecutor(8) as threads:
            for _ in range(200):
                threads.submit(client.get, NODES.path())
            threads.shutdown()
            end = cluster.audit.mark()
            client.get(NODES.path())
        assert _of(cluster.audit.counts(begin, end), f"burst-{turn}") == {
            ("list", "nodes", 200): 200
        }
        assert _of(cluster.audit.counts(end), f"burst-{turn}") == {("list", "nodes", 200): 1}


def test_intervals_are_independent_and_may_be_asked_for_later(cluster: Cluster, api: Api) -> None:
    points = [cluster.audit.mark()]
    with _client(cluster, "counted/1") as client:
        for number in (1, 2, 3):
            for _ in range(number):
                client.get(SERVICE_ACCOUNTS.path("tenant", "default"))
            points.append(cluster.audit.mark())
    key = ("get", "serviceaccounts", 200)
    for number in (3, 1, 2):
        counts = cluster.audit.counts(points[number - 1], points[number])
        assert _of(counts, "counted") == {key: number}
    assert _of(cluster.audit.counts(points[0], points[3]), "counted") == {key: 6}
    assert _of(cluster.audit.counts(points[3]), "counted") == {}


def test_a_watch_counts_when_it_begins(cluster: Cluster, api: Api) -> None:
    version = api.get(NODES.path())["metadata"]["resourceVersion"]
    begin = cluster.audit.mark()
    with _client(cluster, "watching/1") as client:
        events = client.watch(NODES.path(), resourceVersion=version)
        api.create(NODES.path(), _node("n1"))
        assert next(events)["object"]["metadata"]["name"] == "n1"
        assert _of(cluster.audit.counts(begin), "watching") == {("watch", "nodes", 200): 1}
        events.close()
        ended = cluster.audit.entries(begin, ended=True)
        assert [r.verb for r in ended if r.agent == "watching"] == ["watch"]


def test_two_threads_may_mark_at_once(cluster: Cluster) -> None:
    with ThreadPoolExecutor(8) as threads:
        points = list(threads.map(lambda _: cluster.audit.mark(), range(40)))
    assert len(set(points)) == 40


def test_a_request_that_a_kill_interrupted_counts_without_a_code(own_cluster: Cluster) -> None:
    audit = own_cluster.audit
    begin = audit.mark()
    # With etcd frozen a write stays in the server for as long as we like.
    os.kill(own_cluster.pids["etcd"], signal.SIGSTOP)
    failures: list[Exception] = []

    def write() -> None:
        with _client(own_cluster, "interrupted/1") as client:
            try:
                client.create(NODES.path(), _node("n1"))
            except (OSError, ApiError) as error:
                failures.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    deadline = time.monotonic() + 30
    while b"interrupted/1" not in audit.path.read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    own_cluster.stop_server()
    os.kill(own_cluster.pids["etcd"], signal.SIGCONT)
    thread.join()
    own_cluster.start_server()
    assert _of(audit.counts(begin), "interrupted") == {("create", "nodes", 0): 1}
    assert len(failures) == 1


def test_marking_needs_a_server(own_cluster: Cluster) -> None:
    own_cluster.stop_server()
    with pytest.raises(OSError, match=r"."):
        own_cluster.audit.mark()
