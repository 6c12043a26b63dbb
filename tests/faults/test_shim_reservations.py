"""What becomes of entry and reservation when the requests between them fail."""

from __future__ import annotations

import json

import pytest

from hack.cluster.simnode import SimulatedNode
from tests.faults.actions import Action, CutBeforeSending, CutReply, Request, refusal
from tests.faults.proxy import Proxy
from tests.faults.test_shim_kill import Killer, points
from tests.shim.instruments import Traced
from tests.shim.world import World, classic, config, pod

CUTS = pytest.mark.parametrize(
    "action",
    [CutBeforeSending(), CutReply(), CutReply(after_bytes=40)],
    ids=["before", "reply", "half"],
)
MODES = pytest.mark.parametrize("sliced", [True, False], ids=["slices", "classic"])
WRITES = pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE"])


class Marked:
    """A node whose pool is marked as overlapping, and whose requests go through the proxy."""

    def __init__(self, world: World, proxy: Proxy, *, sliced: bool) -> None:
        self.world = world
        self.asked = config() if sliced else classic()
        if sliced:
            world.table({"10.40.0.0/26": "n1"})
            self.pool = world.pool("n1", "10.40.0.0/26", overlapping=True)
        else:
            self.pool = world.shared(overlapping=True)
        self.node: SimulatedNode = world.node("n1", kubeconfig=proxy.kubeconfig, wait_seconds=1)
        self.first = pod()
        self.node.add(self.first, self.asked)

    def agree(self) -> dict[str, str]:
        """Address -> container, which entries and reservations must say alike."""
        entries = {
            f"blue-10.40.0.{o}": e["id"] for o, e in self.world.allocations(self.pool).items()
        }
        reserved = {n: spec["containerid"] for n, spec in self.world.reservations().items()}
        assert entries == reserved
        return entries


@MODES
@CUTS
@WRITES
def test_a_cut_write_leaves_entry_and_reservation_in_step(
    world: World, proxy: Proxy, method: str, action: Action, sliced: bool
) -> None:
    marked, one = Marked(world, proxy, sliced=sliced), pod()
    proxy.inject(action, when=lambda request: request.method == method, times=1)
    assert marked.node.add(one, marked.asked).address == "10.40.0.2"
    assert marked.agree() == {
        "blue-10.40.0.1": marked.first.container,
        "blue-10.40.0.2": one.container,
    }
    assert marked.node.delete(one, marked.asked).code == 0
    assert marked.agree() == {"blue-10.40.0.1": marked.first.container}


@MODES
@pytest.mark.parametrize(
    ("method", "action"),
    [("POST", CutBeforeSending()), ("POST", CutReply()), ("PATCH", CutBeforeSending())],
)
def test_what_an_add_that_failed_for_good_leaves_goes_with_its_del(
    world: World, proxy: Proxy, method: str, action: Action, sliced: bool
) -> None:
    marked, one = Marked(world, proxy, sliced=sliced), pod()
    proxy.inject(action, when=lambda request: request.method == method)
    outcome = marked.node.add(one, marked.asked)
    assert json.loads(outcome.stdout)["code"] == 11
    proxy.clear()
    assert marked.node.delete(one, marked.asked).code == 0
    assert marked.agree() == {"blue-10.40.0.1": marked.first.container}


@MODES
def test_an_entry_that_may_stand_keeps_its_reservation_until_the_del(
    world: World, proxy: Proxy, sliced: bool
) -> None:
    marked, one = Marked(world, proxy, sliced=sliced), pod()
    stored: list[str] = []

    def blind(request: Request) -> bool:
        """From the stored entry on, nothing is answered."""
        stored.extend([request.method] if request.method == "PATCH" else [])
        return bool(stored)

    proxy.inject(CutReply(), when=blind)
    assert json.loads(marked.node.add(one, marked.asked).stdout)["code"] == 11
    proxy.clear()
    both = {"blue-10.40.0.1": marked.first.container, "blue-10.40.0.2": one.container}
    assert marked.agree() == both
    assert marked.node.add(one, marked.asked).address == "10.40.0.2"
    assert marked.agree() == both
    assert marked.node.delete(one, marked.asked).code == 0
    assert marked.agree() == {"blue-10.40.0.1": marked.first.container}


@MODES
def test_a_del_that_could_not_remove_the_reservation_does_it_when_it_is_called_again(
    world: World, proxy: Proxy, sliced: bool
) -> None:
    marked = Marked(world, proxy, sliced=sliced)
    proxy.inject(
        refusal(503, "ServiceUnavailable"), when=lambda request: request.method == "DELETE"
    )
    assert marked.node.delete(marked.first, marked.asked).code == 1
    assert set(world.reservations()) == {"blue-10.40.0.1"}
    proxy.clear()
    assert marked.node.delete(marked.first, marked.asked).code == 0
    assert marked.agree() == {}


@MODES
def test_a_pool_that_refuses_the_entry_gets_the_reservation_taken_back(
    world: World, proxy: Proxy, sliced: bool
) -> None:
    marked = Marked(world, proxy, sliced=sliced)
    proxy.inject(refusal(422, "Invalid"), when=lambda request: request.method == "PATCH")
    assert marked.node.add(pod(), marked.asked).code == 1
    assert marked.agree() == {"blue-10.40.0.1": marked.first.container}


@MODES
@pytest.mark.parametrize("verb", ["ADD", "DEL"])
def test_a_call_killed_at_any_line_leaves_no_entry_without_its_reservation(
    world: World, traced: Traced, verb: str, sliced: bool
) -> None:
    """A reservation too many may stay where a process died between the two writes."""
    asked = config() if sliced else classic()
    if sliced:
        world.table({"10.40.0.0/26": "n1"})
        name = world.pool("n1", "10.40.0.0/26", overlapping=True)
    else:
        name = world.shared(overlapping=True)
    node, first = world.node("n1", address_cooldown=0), pod()
    node.add(pod(), asked)
    killer = Killer(node, traced, asked)
    if verb == "DEL":
        node.add(first, asked)
    total = killer.lines(verb, first)
    node.delete(first, asked)
    for line in points(total):
        killed = pod()
        if verb == "DEL":
            node.add(killed, asked)
        code = killer.run(verb, killed, line)
        other = pod()
        node.add(other, asked)
        entries = world.allocations(name)
        reserved = world.reservations()
        for offset, entry in entries.items():
            # The entry goes first: what it leaves behind is never an address without protection.
            assert reserved[f"blue-10.40.0.{offset}"]["containerid"] == entry["id"], (line, code)
        for gone in (killed, other):
            assert node.delete(gone, asked).code == 0
        assert set(world.allocations(name)) == {"1"}, (line, code)
