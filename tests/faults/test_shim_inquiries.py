"""CHECK, GC and STATUS when answers are broken, lost or refused: no wrong word, nothing lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hack.cluster.server import Cluster
from hack.cluster.simnode import Outcome, Pod
from tests.faults.actions import Action, CutBeforeSending, CutReply, Hook
from tests.faults.proxy import Proxy
from tests.faults.test_shim_requests import BROKEN
from tests.shim.world import CheckedNode, World, config, pod

VERBS = ("CHECK", "GC", "STATUS")
CUTS: dict[str, Action] = {
    "cut before sending": CutBeforeSending(),
    "reply cut": CutReply(),
    "reply cut inside": CutReply(after_bytes=40),
}


class Known:
    """A node with two pods, one of which lives, and the calls that ask about them."""

    def __init__(self, world: World, kubeconfig: Path) -> None:
        (self.pool,) = world.slices("n1")
        self.node: CheckedNode = world.node("n1", kubeconfig=kubeconfig, wait_seconds=0.5)
        self.config: dict[str, Any] = {**config(), "cniVersion": "1.1.0"}
        self.alive, self.gone = pod(), pod()
        self.result = self._add(self.alive)
        self._add(self.gone)
        for path in self.node.hints.glob("*.json"):  # the last contact is long ago
            data = json.loads(path.read_text())
            data[7] = 0.0
            path.write_text(json.dumps(data))

    def _add(self, one: Pod) -> dict[str, Any]:
        outcome = self.node.add(one, self.config)
        assert outcome.code == 0, outcome
        return outcome.result

    def call(self, verb: str) -> Outcome:
        if verb == "CHECK":
            return self.node.check(self.alive, self.config, self.result)
        if verb == "GC":
            return self.node.collect(self.config, (self.alive.container, "net1"))
        return self.node.status(self.config)


@pytest.fixture
def known(world: World, proxy: Proxy) -> Known:
    return Known(world, proxy.kubeconfig)


def held(world: World, known: Known) -> set[str]:
    return {entry["id"] for entry in world.allocations(known.pool).values()}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("kind", [*BROKEN, *CUTS])
def test_one_broken_answer_costs_time_and_nothing_else(
    world: World, known: Known, proxy: Proxy, kind: str, verb: str
) -> None:
    proxy.inject({**BROKEN, **CUTS}[kind], times=1)
    assert known.call(verb).code == 0
    expected = {known.alive.container} | ({known.gone.container} if verb != "GC" else set())
    assert held(world, known) == expected


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("kind", BROKEN)
def test_an_api_server_that_stays_broken_is_told_as_such(
    world: World, known: Known, proxy: Proxy, kind: str, verb: str
) -> None:
    proxy.inject(BROKEN[kind])
    outcome = known.call(verb)
    assert (outcome.code, outcome.stderr) == (1, "")
    assert outcome.result["code"] == (50 if verb == "STATUS" else 11)
    assert held(world, known) == {known.alive.container, known.gone.container}


@pytest.mark.parametrize("verb", VERBS)
def test_a_refused_credential_that_is_replaced_meanwhile_is_read_again(
    world: World, cluster: Cluster, proxy: Proxy, tmp_path: Path, verb: str
) -> None:
    """Case T43: one re-read, then success."""
    used = cluster.kubeconfig_for(path=tmp_path / "used", server=proxy.url)
    known = Known(world, used)
    good = cluster.kubeconfig_for(path=tmp_path / "good", server=proxy.url)
    cluster.kubeconfig_for(path=used, server=proxy.url, token="stale")
    proxy.inject(Hook(after=lambda request, reply: good.replace(used)), times=1)
    world.forget_requests()
    assert known.call(verb).code == 0
    assert sum(code == 401 for _, _, code in world.requests().elements()) == 1
