"""A node whose slices are full asks the controller for more and waits; the test answers."""

from __future__ import annotations

import fcntl
import json
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.faults.actions import Hook, Request
from tests.faults.proxy import Proxy
from tests.shim.test_slices import failure
from tests.shim.world import NAMESPACE, CheckedNode, World, classic, config, pod
from whereabouts_fast.ipam import naming
from whereabouts_fast.kube.resource import IPPOOLS, NODESLICEPOOLS

PATCHED = ("patch", "ippools", 200)
READ_POOL = ("get", "ippools", 200)
READ_TABLE = ("get", "nodeslicepools", 200)
FULL, NEXT, LAST = "10.40.0.4/31", "10.40.0.8/31", "10.40.0.12/30"


def wants(request: Request) -> bool:
    return request.method == "PATCH" and b"whereabouts-fast.io" in request.body


class Short:
    """A node whose only slice is full, and a controller that is played by the test."""

    def __init__(self, world: World, proxy: Proxy, **settings: Any) -> None:
        self.world = world
        self.proxy = proxy
        world.table({FULL: "n1"})
        self.pool = world.pool("n1", FULL)
        settings = {"wait_seconds": 20, "address_cooldown": 0, **settings}
        self.node: CheckedNode = world.node("n1", kubeconfig=proxy.kubeconfig, **settings)
        self.pods = [pod(), pod()]
        for one in self.pods:
            assert self.node.add(one, config()).code == 0
        world.forget_requests()

    def notes(self, name: str = "") -> dict[str, str]:
        """The annotations of a pool, without their prefix."""
        metadata = self.world.api.get(self.world.pool_path(name or self.pool))["metadata"]
        return {
            key.partition("/")[2]: text for key, text in metadata.get("annotations", {}).items()
        }

    def answer(self, **kind: str) -> None:
        """Answer as the controller does: one write that removes `want`."""
        keys = {"want": None, "more": None, "refused": None, **kind}
        notes = {f"whereabouts-fast.io/{key}": text for key, text in keys.items()}
        path = self.world.pool_path(self.pool)
        self.world.api.patch(path, {"metadata": {"annotations": notes}})

    def deal(self, cidr: str = NEXT) -> str:
        """Give the node another slice, whose pool is open; return the pool's name."""
        path = NODESLICEPOOLS.path(NAMESPACE, "blue")
        allocation = {"nodeName": "n1", "sliceRange": cidr, "state": "Active"}
        self.world.api.patch(
            path, [{"op": "add", "path": "/status/allocations/-", "value": allocation}]
        )
        return self.world.pool("n1", cidr)

    def on_want(self, reply: Callable[[], object], *, times: int | None = 1) -> None:
        """Do this when the server has stored a `want`, before the plugin knows that it has."""
        hook = Hook(after=lambda request, answer: reply())
        self.proxy.inject(hook, when=wants, times=times)

    def looks(self) -> int:
        """How often the table was asked for."""
        return sum(one.path.endswith("nodeslicepools/blue") for one in self.proxy.requests)

    def wait_for_want(self) -> None:
        """Return when a `want` stands on the node's pool."""

        def stands(items: list[dict[str, Any]]) -> bool:
            (item,) = items
            return naming.ANNOTATION_WANT in item["metadata"].get("annotations", {})

        select = f"metadata.name={self.pool}"
        self.world.api.wait_for(IPPOOLS.path(NAMESPACE), stands, fieldSelector=select)


@pytest.fixture
def short(world: World, proxy: Proxy) -> Short:
    return Short(world, proxy)


def until(seen: Callable[[], bool]) -> None:
    """Poll until something is seen."""
    deadline = time.monotonic() + 30
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def end(adding: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = adding.communicate(timeout=60)
    assert err == ""
    found: dict[str, Any] = json.loads(out)
    return found


def test_an_add_on_a_full_node_is_served_from_the_slice_that_its_want_brings(
    short: Short,
) -> None:
    """Case T40, in its exact requests when the answer stands before the first look at it."""
    short.on_want(lambda: short.answer(more=short.deal()))
    assert short.node.add(pod(), config()).address == "10.40.0.8"
    # Full is believed after table and pool were read; want; the answer; the new pool; the entry.
    assert short.world.requests() == Counter({READ_TABLE: 1, READ_POOL: 3, PATCHED: 2})
    short.world.forget_requests()
    assert short.node.add(pod(), config()).address == "10.40.0.9"
    assert short.world.requests() == Counter({PATCHED: 1})


def test_a_node_without_a_hint_asks_with_as_many_requests(short: Short) -> None:
    short.on_want(lambda: short.answer(more=short.deal()))
    for path in short.node.hints.glob("*.json"):
        path.unlink()
    assert short.node.add(pod(), config()).address == "10.40.0.8"
    assert short.world.requests() == Counter({READ_TABLE: 1, READ_POOL: 3, PATCHED: 2})


def test_a_want_names_who_asked(short: Short) -> None:
    seen: list[dict[str, str]] = []
    short.answer(refused="an old answer")

    def look() -> None:
        seen.append(short.notes())
        short.answer(more=short.deal())

    short.on_want(look)
    one = pod()
    assert short.node.add(one, config()).code == 0
    assert seen == [{"want": f"tenant/{one.name}/net1"}]  # and nothing that was answered before


def test_a_refusal_is_error_101_at_once_with_its_reason(world: World, proxy: Proxy) -> None:
    short = Short(world, proxy, wait_seconds=25)
    short.on_want(lambda: short.answer(refused="node_slice_max 1 is reached"))
    error = failure(short.node.add(pod(), config()))
    assert error["code"] == 101
    for part in (
        *('network "blue"', 'node "n1"', FULL, "used 2", "total 2"),
        "node_slice_max 1 is reached",
    ):
        assert part in error["msg"]
    # As above up to the answer; then everything is looked at once more before the ADD fails.
    assert world.requests() == Counter({READ_TABLE: 2, READ_POOL: 3, PATCHED: 1})
    assert short.notes() == {"refused": "node_slice_max 1 is reached"}


def test_an_old_refusal_does_not_keep_a_node_from_asking(short: Short) -> None:
    short.answer(refused="the network had no free slice")
    short.on_want(lambda: short.answer(more=short.deal()))
    assert short.node.add(pod(), config()).address == "10.40.0.8"


def test_an_answer_beside_a_want_that_stands_means_nothing(short: Short) -> None:
    """A controller's answer to an earlier want may be read together with a new want."""

    def stale() -> None:
        notes = {"whereabouts-fast.io/refused": "old"}
        path = short.world.pool_path(short.pool)
        short.world.api.patch(path, {"metadata": {"annotations": notes}})

    short.on_want(stale)
    adding = short.node.start("ADD", pod(), config())
    short.wait_for_want()
    short.answer(more=short.deal())
    assert end(adding)["ips"] == [{"address": "10.40.0.8/24"}]


def test_calls_that_wait_together_share_one_want_and_one_slice(short: Short) -> None:
    adding = [short.node.start("ADD", pod(), config()) for _ in range(4)]
    until(lambda: short.looks() == 1 + len(adding))  # all have begun to look
    (lock,) = short.node.hints.glob("*.lock")
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # the last one has found the node full too
    short.answer(more=short.deal(LAST))
    given = [end(one)["ips"][0]["address"] for one in adding]
    assert sorted(given) == [f"10.40.0.{last}/24" for last in (12, 13, 14, 15)]
    assert sum(map(wants, short.proxy.requests)) == 1


def test_who_finds_the_new_slice_used_up_asks_once_more(short: Short) -> None:
    cidrs = [NEXT, LAST]

    def grow() -> None:
        short.answer(more=short.deal(cidrs.pop(0)))

    short.on_want(grow, times=2)
    with ThreadPoolExecutor(4) as threads:
        given = list(threads.map(lambda _: short.node.add(pod(), config()).address, range(4)))
    assert len(set(given)) == 4
    assert sum(map(wants, short.proxy.requests)) == 2


@pytest.mark.parametrize("deleted", [True, False])
def test_a_pool_that_closes_or_goes_while_a_call_waits_sends_it_to_the_table(
    short: Short, deleted: bool
) -> None:
    adding = short.node.start("ADD", pod(), config())
    short.wait_for_want()
    short.deal()
    if deleted:
        short.world.api.delete(short.world.pool_path(short.pool))
    else:
        short.world.api.patch(short.world.pool_path(short.pool), {"spec": {"closed": True}})
    assert end(adding)["ips"] == [{"address": "10.40.0.8/24"}]


def test_an_add_that_is_given_up_while_it_waits_ends_and_takes_nothing(short: Short) -> None:
    one = pod()
    adding = short.node.start("ADD", one, config())
    short.wait_for_want()
    assert short.node.delete(one, config()).code == 0
    error = end(adding)  # long before its wait is over
    assert error["code"] == 11
    assert "a DEL for the same container and interface has come" in error["msg"]
    assert "want" in short.notes()
    assert len(short.world.allocations(short.pool)) == 2


def test_without_hints_a_want_is_answered_as_well(world: World, proxy: Proxy) -> None:
    short = Short(world, proxy, hints_dir="/dev/null/hints")
    short.on_want(lambda: short.answer(more=short.deal()))
    assert short.node.add(pod(), config()).address == "10.40.0.8"
    # What is not remembered is read again: table and both pools after the answer.
    assert short.world.requests() == Counter({READ_TABLE: 2, READ_POOL: 4, PATCHED: 2})


def test_an_address_freed_while_a_call_waits_is_enough(short: Short) -> None:
    adding = short.node.start("ADD", pod(), config())
    short.wait_for_want()
    assert short.node.delete(short.pods[0], config()).code == 0
    assert end(adding)["ips"] == [{"address": "10.40.0.4/24"}]


def test_room_that_the_controller_made_in_the_same_pool_is_used(short: Short) -> None:
    """Leaked entries were freed: `more` names the pool that was full."""

    def free() -> None:
        path = short.world.pool_path(short.pool)
        short.world.api.patch(path, [{"op": "remove", "path": "/spec/allocations/1"}])
        short.answer(more=short.pool)

    short.on_want(free)
    assert short.node.add(pod(), config()).address == "10.40.0.5"


def test_without_an_answer_an_add_fails_after_the_wait_and_leaves_its_want(
    world: World, proxy: Proxy
) -> None:
    short = Short(world, proxy, wait_seconds=0.5)
    outcome = short.node.add(pod(), config())
    error = failure(outcome)
    assert error["code"] == 101
    for part in ('network "blue"', 'node "n1"', FULL, "used 2", "total 2", "within 0.5 s"):
        assert part in error["msg"]
    assert outcome.seconds >= 0.5
    assert "want" in short.notes()
    short.answer(more=short.deal())
    assert short.node.add(pod(), config()).address == "10.40.0.8"


def test_without_a_wait_the_want_is_set_for_the_next_try(world: World, proxy: Proxy) -> None:
    short = Short(world, proxy, wait_seconds=0)
    short.on_want(lambda: short.answer(more=short.deal()))
    assert failure(short.node.add(pod(), config()))["code"] == 101
    assert world.requests() == Counter({READ_TABLE: 1, READ_POOL: 1, PATCHED: 1})
    assert short.node.add(pod(), config()).address == "10.40.0.8"


def test_the_wait_is_part_of_the_deadline(world: World, proxy: Proxy) -> None:
    short = Short(world, proxy, wait_seconds=3600, add_deadline_seconds=4)
    outcome = short.node.add(pod(), config())
    assert failure(outcome)["code"] == 101
    assert outcome.seconds < 4


def test_what_a_pod_of_the_same_name_left_is_taken_only_after_the_wait(
    world: World, proxy: Proxy
) -> None:
    short = Short(world, proxy, wait_seconds=0.5)
    outcome = short.node.add(pod(short.pods[1].name), config())
    assert outcome.address == "10.40.0.5"
    assert outcome.seconds >= 0.5
    assert "want" in short.notes()


def test_what_a_pod_of_the_same_name_left_is_not_taken_when_there_is_more(short: Short) -> None:
    short.on_want(lambda: short.answer(more=short.deal()))
    assert short.node.add(pod(short.pods[1].name), config()).address == "10.40.0.8"


def test_what_a_pod_of_the_same_name_left_is_taken_when_more_is_refused(short: Short) -> None:
    short.on_want(lambda: short.answer(refused="the network has no free slice"))
    assert short.node.add(pod(short.pods[1].name), config()).address == "10.40.0.5"


@pytest.mark.parametrize("asked", ["10.40.0.99", "10.40.0.5"], ids=["outside", "taken"])
def test_a_fixed_address_is_never_worth_a_want(short: Short, asked: str) -> None:
    fixed = {**config(), "args": {"cni": {"ips": [asked]}}}
    assert failure(short.node.add(pod(), fixed))["code"] == 104
    assert short.notes() == {}
    assert not any(map(wants, short.proxy.requests))


def test_where_there_is_no_controller_nothing_is_asked_and_nothing_waited_for(
    world: World, proxy: Proxy
) -> None:
    short = Short(world, proxy, wait_seconds=25, standalone=True)
    outcome = short.node.add(pod(), config())
    assert failure(outcome)["code"] == 101
    assert outcome.seconds < 20
    assert world.requests() == Counter({READ_TABLE: 1, READ_POOL: 1})
    assert short.notes() == {}


def test_a_full_pool_that_all_nodes_share_is_refused_at_once(world: World, proxy: Proxy) -> None:
    asked = classic("10.40.0.0/30")
    name = world.shared("10.40.0.0/30")
    node = world.node("n1", kubeconfig=proxy.kubeconfig, wait_seconds=25)
    for _ in range(2):
        assert node.add(pod(), asked).code == 0
    world.forget_requests()
    assert failure(node.add(pod(), asked))["code"] == 101
    assert not any(map(wants, proxy.requests))
    assert "annotations" not in world.api.get(world.pool_path(name))["metadata"]


def test_a_pool_that_the_controller_names_but_is_another_nodes_is_left_alone(
    world: World, proxy: Proxy
) -> None:
    short = Short(world, proxy, wait_seconds=1)
    theirs = world.pool("n2", NEXT)
    short.on_want(lambda: short.answer(more=theirs), times=None)
    assert failure(short.node.add(pod(), config()))["code"] == 101
    assert world.allocations(theirs) == {}
