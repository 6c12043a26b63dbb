"""What client, informer and elector do when the way to the API server does harm."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator

import pytest

from hack.cluster.api import Api, JsonObject
from hack.cluster.server import Cluster
from tests.faults.actions import (
    Action,
    Answer,
    CutBeforeSending,
    CutReply,
    CutStream,
    Forward,
    Gate,
    Hold,
    Raw,
    Request,
    SilenceStream,
    refusal,
)
from tests.faults.proxy import Proxy
from tests.integration.watched import Watched
from whereabouts_fast.kube import errors
from whereabouts_fast.kube.client import Client
from whereabouts_fast.kube.lease import Elector
from whereabouts_fast.kube.resource import LEASES, NODES

AGENT = "whereabouts-fast-faulttest/1.0"
PATH = "/api/v1/nodes"


def node(name: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def watches(request: Request) -> bool:
    return request.is_watch


def writes(request: Request) -> bool:
    return request.is_write


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[Proxy]:
    with Proxy(cluster) as running:
        yield running


@pytest.fixture
async def client(api: Api, proxy: Proxy) -> AsyncIterator[Client]:
    async with Client.connect(str(proxy.kubeconfig), AGENT, limit=5.0) as connected:
        yield connected


def endless_headers() -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\n"
    for number in itertools.count():
        yield b"X-%d: x\r\n" % number


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (CutBeforeSending(), errors.Unreachable),
        (CutReply(), errors.Unreachable),
        (CutReply(after_bytes=30), errors.Unreachable),
        (Raw([b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"]), errors.Unreachable),
        (Raw([b"\x16\x03 this is not HTTP\r\n\r\n"]), errors.Unreachable),
        (Answer(200, "<html>log in first</html>"), errors.ServerError),
        (Answer(200, b"[]"), errors.ServerError),
        (Answer(302, b"", {"Location": "https://127.0.0.1:1/"}), errors.ApiError),
        (Answer(502, "<html>bad gateway</html>"), errors.ServerError),
        (refusal(503, "ServiceUnavailable"), errors.ServerError),
        (refusal(500, "InternalError"), errors.ServerError),
        (refusal(401, "Unauthorized"), errors.Unauthorized),
        (refusal(429, "TooManyRequests", Retry_After="3"), errors.TooManyRequests),
    ],
    ids=str,
)
async def test_whatever_comes_back_is_one_of_our_errors(
    action: Action, expected: type[errors.ApiError], proxy: Proxy, client: Client
) -> None:
    proxy.inject(action)
    with pytest.raises(errors.ApiError) as caught:
        await client.get(NODES, None, "n")
    assert type(caught.value) is expected
    with pytest.raises(errors.ApiError):
        await client.create(NODES, None, node("n"))
    proxy.clear()
    await client.list(NODES)


async def test_a_replaced_kubeconfig_may_name_another_server(
    api: Api, cluster: Cluster, proxy: Proxy
) -> None:
    path = cluster.kubeconfig_for(token="outdated")
    async with Client.connect(str(path), AGENT) as client, asyncio.TaskGroup() as group:
        watched = Watched(client, NODES, metadata_only=True)
        path.write_text(cluster.kubeconfig_for(server=proxy.url).read_text())
        running = group.create_task(watched.informer.run())
        await asyncio.gather(*(client.list(NODES) for _ in range(8)))
        async with asyncio.timeout(30):
            await watched.informer.synced()
        api.create(PATH, node("a"))
        await watched.until(lambda now: now.keys() == ["a"])
        running.cancel()
    # Once each: nobody tried twice by the new way, and the old one was given up.
    assert len(proxy.requests) == 9


async def test_headers_without_end_are_given_up(proxy: Proxy, client: Client) -> None:
    proxy.inject(lambda request: Raw(endless_headers()))
    with pytest.raises(errors.Unreachable):
        await client.get(NODES, None, "n")


async def test_an_answer_that_never_comes_is_waited_for_no_longer_than_the_limit(
    api: Api, proxy: Proxy
) -> None:
    proxy.inject(Raw([b"HTTP/1.1 200 OK\r\n"], hang=True))
    async with Client.connect(str(proxy.kubeconfig), AGENT, limit=0.5) as impatient:
        with pytest.raises(errors.Unreachable, match=r"no answer .* within 0\.5 s"):
            await impatient.get(NODES, None, "n")


async def test_a_write_whose_answer_was_lost_is_done_and_unreachable_says_no_more(
    api: Api, proxy: Proxy, client: Client
) -> None:
    proxy.inject(CutReply(), when=writes)
    with pytest.raises(errors.Unreachable):
        await client.create(NODES, None, node("n"))
    assert api.exists(f"{PATH}/n")
    assert len([request for request in proxy.requests if request.is_write]) == 1


async def test_the_server_s_wish_to_wait_arrives(proxy: Proxy, client: Client) -> None:
    proxy.inject(refusal(429, "TooManyRequests", Retry_After="3"))
    with pytest.raises(errors.TooManyRequests) as caught:
        await client.list(NODES)
    assert caught.value.retry_after == 3


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (CutStream(events=1), "broken"),
        (SilenceStream(events=1), "silent"),
        (CutBeforeSending(), "broken"),
        (refusal(410, "Expired"), "expired"),
        (
            Answer(200, b'{"type":"ERROR","object":{"kind":"Status","code":410}}\n'),
            "expired",
        ),
        (refusal(504, "Timeout", "Too large resource version"), "refused"),
        (refusal(503, "ServiceUnavailable"), "broken"),
        (Answer(200, "<html>log in first</html>\n"), "broken"),
        (Answer(502, "<html>bad gateway</html>"), "broken"),
        (Answer(200, b""), "short"),
        (Answer(200, b'{"type":"ADDED","object":{"meta'), "short"),
    ],
    ids=str,
)
async def test_a_harmed_watch_misses_neither_change_nor_delete(
    harm: Action, reason: str, api: Api, proxy: Proxy, client: Client
) -> None:
    for name in ("a", "b", "c"):
        api.create(PATH, node(name))
    watched = Watched(client, NODES, metadata_only=True, silence=3.0)
    async with watched.running():
        pass
    # While nobody watches: an event for the harmed watch to break off after, and more behind it.
    api.delete(f"{PATH}/a")
    api.create(PATH, node("d"))
    api.delete(f"{PATH}/b")
    # aiohttp by itself sends a GET again, once, when a kept connection turns out to be dead.
    proxy.inject(harm, when=watches, times=2 if isinstance(harm, CutBeforeSending) else 1)
    async with watched.running() as informer:
        await watched.until(lambda now: sorted(now.keys()) == ["c", "d"])
        await watched.ears.wait_for_reason(reason)
        api.create(PATH, node("e"))
        await watched.until(lambda now: sorted(now.keys()) == ["c", "d", "e"])
        assert len(informer) == 3
    assert watched.changes.count(("a", None)) == 1
    assert watched.changes.count(("b", None)) == 1


async def test_leadership_survives_lost_answers(api: Api, proxy: Proxy, client: Client) -> None:
    loop = asyncio.get_running_loop()
    renewed = asyncio.Event()
    numbers = itertools.count(1)
    rounds = 0

    def lose_some(request: Request) -> Action:
        number = next(numbers)
        if number == 12:
            loop.call_soon_threadsafe(renewed.set)
        return CutReply() if 2 <= number <= 4 else Forward()

    async def work() -> None:
        nonlocal rounds
        rounds += 1
        await renewed.wait()

    proxy.inject(lose_some, when=lambda request: request.method == "PUT")
    async with asyncio.timeout(60):
        await Elector(
            client, "ipam-system", "lost", "one", duration=9, renew_deadline=8, retry=0.1
        ).run(work)
    assert rounds == 1
    assert api.get(LEASES.path("ipam-system", "lost"))["spec"]["leaseTransitions"] == 0


async def test_a_leader_that_cannot_renew_stops_before_others_may_begin(
    api: Api, proxy: Proxy, client: Client
) -> None:
    clock = asyncio.get_running_loop().time
    stopped: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    gate = Gate()

    async def work() -> None:
        proxy.inject(Hold(gate))
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            stopped.set_result(clock())

    elector = Elector(client, "ipam-system", "held", "one", duration=6, renew_deadline=4, retry=0.3)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(elector.run(work))
        async with asyncio.timeout(30):
            await stopped
        lease = api.get(LEASES.path("ipam-system", "held"))
        assert lease["spec"]["holderIdentity"] == "one"
        proxy.clear()
        gate.open()
        running.cancel()
