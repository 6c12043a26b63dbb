"""What becomes of an ADD and a DEL when requests, replies and credentials fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hack.cluster.server import Cluster
from hack.cluster.simnode import Outcome, SimulatedNode
from tests.faults.actions import (
    Action,
    Answer,
    CutBeforeSending,
    CutReply,
    Hook,
    Raw,
    Request,
    refusal,
)
from tests.faults.proxy import Proxy
from tests.shim.world import World, config, pod


def patches(request: Request) -> bool:
    return request.method == "PATCH"


def everything(request: Request) -> bool:
    return True


class Steady:
    """A node that knows its pool, and whose requests go through the proxy."""

    def __init__(self, world: World, proxy: Proxy) -> None:
        (self.pool,) = world.slices("n1")
        self.world = world
        self.node: SimulatedNode = world.node("n1", kubeconfig=proxy.kubeconfig, wait_seconds=2)
        self.first = pod()
        self.node.add(self.first, config())

    def held(self) -> dict[str, str]:
        """Offset -> container id, as the server has it."""
        return {k: v["id"] for k, v in self.world.allocations(self.pool).items()}


@pytest.fixture
def steady(world: World, proxy: Proxy) -> Steady:
    return Steady(world, proxy)


def failure(outcome: Outcome) -> dict[str, object]:
    """The error object of a call that failed as it should."""
    assert outcome.code == 1
    assert outcome.stderr == ""
    error: dict[str, object] = json.loads(outcome.stdout)
    assert set(error) <= {"cniVersion", "code", "msg", "details"}
    return error


@pytest.mark.parametrize("action", [CutBeforeSending(), CutReply(), CutReply(after_bytes=40)])
def test_an_add_whose_connection_is_cut_ends_with_one_address(
    steady: Steady, proxy: Proxy, action: Action
) -> None:
    proxy.inject(action, when=patches, times=1)
    one = pod()
    assert steady.node.add(one, config()).address == "10.40.0.2"
    assert steady.held() == {"1": steady.first.container, "2": one.container}


@pytest.mark.parametrize("action", [CutBeforeSending(), CutReply(), CutReply(after_bytes=40)])
def test_a_del_whose_connection_is_cut_frees_once(
    steady: Steady, proxy: Proxy, action: Action
) -> None:
    proxy.inject(action, when=patches, times=1)
    outcome = steady.node.delete(steady.first, config())
    assert (outcome.code, outcome.stdout) == (0, "")
    assert steady.held() == {}


def test_an_add_asked_to_wait_does_so_and_succeeds(steady: Steady, proxy: Proxy) -> None:
    proxy.inject(refusal(429, "TooManyRequests", Retry_After="1"), when=patches, times=1)
    outcome = steady.node.add(pod(), config())
    assert outcome.address == "10.40.0.2"
    assert outcome.seconds >= 1
    assert sum(patches(request) for request in proxy.requests) == 3  # the first ADD's, and two


def test_an_add_asked_to_wait_longer_than_it_may_fails_at_once(
    steady: Steady, proxy: Proxy
) -> None:
    proxy.inject(refusal(429, "TooManyRequests", Retry_After="3600"), when=patches)
    outcome = steady.node.add(pod(), config())
    assert failure(outcome)["code"] == 11
    assert len(steady.held()) == 1


def endless() -> list[bytes]:
    return [b"HTTP/1.1 200 OK\r\n" + b"X-Filler: " + b"x" * 1000 + b"\r\n"] + [
        b"X-Filler: " + b"x" * 1000 + b"\r\n"
    ] * 200


BROKEN: dict[str, Action] = {
    "500": refusal(500, "InternalError"),
    "503": refusal(503, "ServiceUnavailable"),
    "html page": Answer(502, "<html><body>Bad gateway</body></html>"),
    "html page as success": Answer(200, "<html><body>Welcome</body></html>"),
    "html page as not found": Answer(404, "<html><body>No such site</body></html>"),
    "wrong content type": Answer(200, b"{}", {"Content-Type": "application/octet-stream"}),
    "half a response": Raw(
        [b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"]
    ),
    "endless headers": Raw(endless()),
    "not http": Raw([b"SSH-2.0-OpenSSH_9.2\r\n\r\n"]),
    "broken json": Answer(200, b'{"metadata":', {"Content-Type": "application/json"}),
    "a list": Answer(200, []),
    "bad chunk": Raw(
        [
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\nzz"
        ]
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_one_broken_answer_costs_time_and_nothing_else(
    steady: Steady, proxy: Proxy, kind: str
) -> None:
    proxy.inject(BROKEN[kind], when=patches, times=1)
    one = pod()
    assert steady.node.add(one, config()).address == "10.40.0.2"
    proxy.inject(BROKEN[kind], when=patches, times=1)
    assert steady.node.delete(one, config()).code == 0
    assert steady.held() == {"1": steady.first.container}


@pytest.mark.parametrize("kind", BROKEN)
def test_an_api_server_that_stays_broken_is_error_11(
    steady: Steady, proxy: Proxy, kind: str
) -> None:
    proxy.inject(BROKEN[kind])
    adding = failure(steady.node.add(pod(), config()))
    assert adding["code"] == 11
    assert "127.0.0.1" in str(adding["msg"]) + str(adding.get("details")) or "404" in str(adding)
    assert failure(steady.node.delete(steady.first, config()))["code"] == 11


def test_a_404_page_of_a_proxy_is_not_taken_for_a_freed_address(
    steady: Steady, proxy: Proxy
) -> None:
    proxy.inject(BROKEN["html page as not found"])
    assert failure(steady.node.delete(steady.first, config()))["code"] == 11
    proxy.clear()
    assert steady.node.delete(steady.first, config()).code == 0
    assert steady.held() == {}


def test_an_unreachable_api_server_is_error_11_within_the_wait_limit(world: World) -> None:
    kubeconfig = world.cluster.kubeconfig_for(server="https://127.0.0.1:1")
    node = world.node("n1", kubeconfig=kubeconfig, wait_seconds=1)
    for outcome in (node.add(pod(), config()), node.delete(pod(), config())):
        error = failure(outcome)
        assert error["code"] == 11
        assert "127.0.0.1 port 1" in str(error["msg"])


def test_a_refused_credential_that_is_replaced_meanwhile_is_read_again(
    world: World, cluster: Cluster, proxy: Proxy, tmp_path: Path
) -> None:
    """Case T43: one re-read, then success."""
    world.slices("n1")
    good = cluster.kubeconfig_for(path=tmp_path / "good", server=proxy.url)
    used = cluster.kubeconfig_for(path=tmp_path / "used", server=proxy.url, token="stale")
    proxy.inject(Hook(after=lambda request, reply: good.replace(used)), times=1)
    world.forget_requests()
    assert world.node("n1", kubeconfig=used).add(pod(), config()).address == "10.40.0.1"
    codes = [code for _, _, code in world.requests().elements()]
    assert sorted(codes) == [200, 200, 200, 401]


def test_a_credential_refused_for_good_is_named_after_one_more_try(
    world: World, cluster: Cluster, tmp_path: Path
) -> None:
    used = cluster.kubeconfig_for(path=tmp_path / "used", token="stale")
    world.forget_requests()
    error = failure(world.node("n1", kubeconfig=used).add(pod(), config()))
    assert error["code"] == 102
    assert str(used) in str(error["msg"])
    assert [code for _, _, code in world.requests().elements()] == [401, 401]


def test_a_forbidden_request_fails_at_once_naming_verb_and_resource(
    world: World, cluster: Cluster, tmp_path: Path
) -> None:
    token = cluster.service_account_token("default")
    used = cluster.kubeconfig_for(path=tmp_path / "used", token=token)
    world.forget_requests()
    error = failure(world.node("n1", kubeconfig=used).add(pod(), config()))
    assert error["code"] == 102
    assert "get" in str(error["msg"])
    assert "nodeslicepools" in str(error["msg"])
    assert sum(world.requests().values()) == 1
