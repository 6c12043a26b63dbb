"""The fault proxy does to the wire exactly what it is asked to do, in front of the real server."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from hack.cluster.api import Api, ApiError, JsonObject
from hack.cluster.server import Cluster
from tests.faults.actions import (
    Answer,
    CutBeforeSending,
    CutReply,
    CutStream,
    DelayStream,
    Gate,
    Hold,
    Hook,
    Raw,
    Request,
    SilenceStream,
    refusal,
)
from tests.faults.proxy import Proxy
from tests.faults.wire import Reply
from whereabouts_fast.kube.resource import NODES


@pytest.fixture
def through(cluster: Cluster, proxy: Proxy) -> Iterator[Api]:
    with Api(proxy.url, cluster.ca_file, cluster.token, user_agent="proxied/1") as client:
        yield client


def _node(name: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def _names(api: Api) -> list[str]:
    return [item["metadata"]["name"] for item in api.list(NODES.path())]


def writes(request: Request) -> bool:
    return request.is_write


def watches(request: Request) -> bool:
    return request.is_watch


def test_passes_requests_on_with_agent_token_and_body(
    cluster: Cluster, api: Api, proxy: Proxy, through: Api
) -> None:
    begin = cluster.audit.mark()
    made = through.create(NODES.path(), _node("n1"))
    assert made["metadata"]["uid"] == api.get(NODES.path(name="n1"))["metadata"]["uid"]
    end = cluster.audit.mark()
    (seen,) = [r for r in cluster.audit.entries(begin, end) if r.agent == "proxied"]
    assert (seen.user, seen.verb, seen.resource, seen.code) == ("admin", "create", "nodes", 201)
    (request,) = proxy.requests
    assert (request.method, request.path, request.agent) == ("POST", NODES.path(), "proxied")


def test_keeps_a_connection_for_several_requests(api: Api, proxy: Proxy, through: Api) -> None:
    for name in ("n1", "n2", "n3"):
        through.create(NODES.path(), _node(name))
    assert _names(through) == ["n1", "n2", "n3"]
    assert [request.method for request in proxy.requests] == ["POST", "POST", "POST", "GET"]


def test_a_cut_before_sending_never_reaches_the_server(
    cluster: Cluster, api: Api, proxy: Proxy, through: Api
) -> None:
    proxy.inject(CutBeforeSending(), when=writes, times=1)
    begin = cluster.audit.mark()
    with pytest.raises(OSError, match=r"."):
        through.create(NODES.path(), _node("n1"))
    assert [r for r in cluster.audit.entries(begin) if r.agent == "proxied"] == []
    assert _names(api) == []
    through.create(NODES.path(), _node("n1"))


@pytest.mark.parametrize("after_bytes", [0, 40, 400])
def test_a_cut_reply_is_cut_after_the_server_has_stored(
    api: Api, proxy: Proxy, through: Api, after_bytes: int
) -> None:
    proxy.inject(CutReply(after_bytes), when=writes)
    with pytest.raises(OSError, match=r"."):
        through.create(NODES.path(), _node("n1"))
    assert _names(api) == ["n1"]


def test_injections_count_from_the_first_match_on(api: Api, proxy: Proxy, through: Api) -> None:
    proxy.inject(refusal(500, "InternalError"), when=writes, first=2, times=2)
    outcomes = []
    for name in ("n1", "n2", "n3", "n4"):
        try:
            through.create(NODES.path(), _node(name))
            outcomes.append("stored")
        except ApiError as error:
            outcomes.append(error.reason)
        _names(through)
    assert outcomes == ["stored", "InternalError", "InternalError", "stored"]
    assert _names(api) == ["n1", "n4"]


def test_the_latest_injection_wins_and_clear_forgets_all(
    api: Api, proxy: Proxy, through: Api
) -> None:
    proxy.inject(refusal(500, "InternalError"))
    proxy.inject(refusal(429, "TooManyRequests", Retry_After="1"), times=1)
    first = through.exchange("GET", NODES.path())
    assert (first.status, first.headers["retry-after"]) == (429, "1")
    assert through.exchange("GET", NODES.path()).status == 500
    proxy.clear()
    assert through.exchange("GET", NODES.path()).status == 200


def test_an_action_may_depend_on_the_request(api: Api, proxy: Proxy, through: Api) -> None:
    proxy.inject(lambda request: Answer(503, f"<html>{request.path}</html>"))
    answer = through.exchange("GET", NODES.path())
    assert (answer.status, answer.headers["content-type"]) == (503, "text/html")
    assert answer.body == f"<html>{NODES.path()}</html>".encode()


def test_half_a_reply_and_endless_headers_come_as_they_are(
    api: Api, proxy: Proxy, through: Api
) -> None:
    proxy.inject(Raw([b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"]), times=1)
    with pytest.raises(OSError, match=r"."):
        through.get(NODES.path())
    proxy.clear()
    endless = itertools.chain([b"HTTP/1.1 200 OK\r\n"], itertools.repeat(b"X-Filler: 1\r\n"))
    proxy.inject(Raw(endless))
    with pytest.raises(ConnectionError, match="headers"):
        through.get(NODES.path())


def test_a_hanging_reply_ends_with_the_clients_patience(
    api: Api, proxy: Proxy, through: Api
) -> None:
    proxy.inject(Raw([b"HTTP/1.1 200 OK\r\n"], hang=True))
    with pytest.raises(TimeoutError):
        through.request("GET", NODES.path(), seconds=0.2)


@pytest.mark.parametrize("after_reply", [False, True])
def test_a_held_request_goes_on_when_the_gate_opens(
    api: Api, proxy: Proxy, through: Api, after_reply: bool
) -> None:
    gate = Gate()
    proxy.inject(Hold(gate, after_reply=after_reply), when=writes)
    with ThreadPoolExecutor(1) as threads:
        pending = threads.submit(through.create, NODES.path(), _node("n1"))
        gate.wait_until_reached()
        assert _names(api) == (["n1"] if after_reply else [])
        assert not pending.done()
        gate.open()
        assert pending.result()["metadata"]["name"] == "n1"
    assert _names(api) == ["n1"]


def test_hooks_run_before_the_server_and_before_the_client_knows(
    api: Api, proxy: Proxy, through: Api
) -> None:
    seen: list[tuple[str, object]] = []

    def before(request: Request) -> None:
        seen.append((request.method, _names(api)))

    def after(request: Request, reply: Reply) -> None:
        seen.append((request.method, (reply.status, _names(api))))

    proxy.inject(Hook(before, after), when=writes)
    through.create(NODES.path(), _node("n1"))
    assert seen == [("POST", []), ("POST", (201, ["n1"]))]


def test_a_hook_that_fails_is_reported_when_the_proxy_closes(cluster: Cluster) -> None:
    def broken(request: Request) -> None:
        raise LookupError("told to fail")

    proxy = Proxy(cluster)
    proxy.inject(Hook(before=broken))
    with (
        Api(proxy.url, cluster.ca_file, cluster.token) as client,
        pytest.raises(OSError, match=r"."),
    ):
        client.get(NODES.path())
    with pytest.raises(ExceptionGroup) as group:
        proxy.close()
    assert group.group_contains(LookupError, match="told to fail")


def _watch_names(client: Api, seconds: float = 30) -> Iterator[str]:
    version = client.get(NODES.path())["metadata"]["resourceVersion"]
    events = client.watch(NODES.path(), seconds=seconds, resourceVersion=version)
    return (event["object"]["metadata"]["name"] for event in events)


def test_events_of_a_watch_pass_as_they_happen(api: Api, proxy: Proxy, through: Api) -> None:
    names = _watch_names(through)
    for name in ("n1", "n2"):
        api.create(NODES.path(), _node(name))
        assert next(names) == name


def test_a_cut_watch_ends_after_so_many_events(api: Api, proxy: Proxy, through: Api) -> None:
    proxy.inject(CutStream(events=1), when=watches)
    names = _watch_names(through)
    api.create(NODES.path(), _node("n1"))
    api.create(NODES.path(), _node("n2"))
    assert next(names) == "n1"
    with pytest.raises(OSError, match=r"."):
        next(names)


def test_a_silent_watch_stays_open_without_events(api: Api, proxy: Proxy, through: Api) -> None:
    proxy.inject(SilenceStream(events=1), when=watches)
    names = _watch_names(through, seconds=1)
    api.create(NODES.path(), _node("n1"))
    api.create(NODES.path(), _node("n2"))
    assert next(names) == "n1"
    with pytest.raises(TimeoutError):
        next(names)


def test_a_delayed_watch_brings_its_events_late_and_all(
    api: Api, proxy: Proxy, through: Api
) -> None:
    gate = Gate(closed=False)
    proxy.inject(DelayStream(gate), when=watches)
    names = _watch_names(through)
    api.create(NODES.path(), _node("n1"))
    assert next(names) == "n1"
    gate.close()
    api.create(NODES.path(), _node("n2"))
    api.create(NODES.path(), _node("n3"))
    gate.wait_until_reached()
    gate.open()
    assert [next(names), next(names)] == ["n2", "n3"]


def test_connections_can_be_cut_by_what_they_are_asking(
    api: Api, proxy: Proxy, through: Api
) -> None:
    names = _watch_names(through)
    api.create(NODES.path(), _node("n1"))
    assert next(names) == "n1"
    proxy.cut(when=lambda request: request.method == "POST")
    api.create(NODES.path(), _node("n2"))
    assert next(names) == "n2"
    proxy.cut(when=watches)
    with pytest.raises(OSError, match=r"."):
        next(names)
    proxy.cut()
    assert _names(through) == ["n1", "n2"]


def test_a_client_that_goes_away_ends_its_watch_at_the_server(
    cluster: Cluster, api: Api, proxy: Proxy, through: Api
) -> None:
    begin = cluster.audit.mark()
    names = _watch_names(through)
    api.create(NODES.path(), _node("n1"))
    assert next(names) == "n1"
    names.close()  # type: ignore[attr-defined]
    requests = cluster.audit.entries(begin, ended=True)
    assert [r.verb for r in requests if r.agent == "proxied"] == ["list", "watch"]


def test_a_stopped_server_looks_stopped_through_the_proxy(own_cluster: Cluster) -> None:
    with (
        Proxy(own_cluster) as proxy,
        Api(proxy.url, own_cluster.ca_file, own_cluster.token) as client,
    ):
        client.get(NODES.path())
        own_cluster.stop_server()
        with pytest.raises(OSError, match=r"."):
            client.get(NODES.path())
        own_cluster.start_server()
        client.get(NODES.path())
