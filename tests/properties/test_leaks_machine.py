"""The collector of leaks against pods, entries, clocks, faults and caches in any interleaving."""

from __future__ import annotations

import asyncio

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.properties.leaks_model import GRACES, RANGES, Collector, Truth
from whereabouts_fast.kube.resource import IPPOOLS, PODS, Resource

NAMES = ["a", "sts-0"]
POOLS = list(RANGES)
FAULTS = st.sampled_from(["", "", "", "not sent", "answer lost"])


class Cluster(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.truth = Truth()
        self.lagging = {PODS: False, IPPOOLS: False}
        self.collector = self.loop.run_until_complete(self._collector())

    async def _collector(self) -> Collector:
        return Collector(self.truth)

    def teardown(self) -> None:
        try:
            self.converge()
        finally:
            self.loop.close()

    # The world.

    @rule(
        name=st.sampled_from(NAMES),
        node=st.sampled_from(["n1", "n2"]),
        mirror=st.booleans(),
        what=st.sampled_from(["finish", "delete", "start", "start anew"]),
    )
    def a_pod_changes(self, name: str, node: str, mirror: bool, what: str) -> None:
        if what == "finish" and self.truth.lives(name):
            self.truth.end_pod(name, finished=True)
        if what in ("delete", "start anew") and name in self.truth.pods:
            self.truth.end_pod(name, finished=False)
        if what in ("start", "start anew") and name not in self.truth.pods:
            self.truth.start_pod(name, node, mirror)

    @rule(
        name=st.sampled_from(NAMES),
        shared=st.booleans(),
        with_uid=st.sampled_from([True, True, False]),
        mirror=st.booleans(),
    )
    def an_address_is_given(self, name: str, shared: bool, with_uid: bool, mirror: bool) -> None:
        if name not in self.truth.pods:
            self.truth.start_pod(name, "n1", mirror)
        if self.truth.lives(name):
            node = self.truth.pods[name]["spec"]["nodeName"]
            pool = next(p for p, n in RANGES.items() if n == ("" if shared else node))
            self.truth.add(name, pool, with_uid=with_uid)

    @rule(name=st.sampled_from(NAMES), shared=st.booleans(), seconds=st.sampled_from([1, 20]))
    def an_address_is_given_once_more(self, name: str, shared: bool, seconds: int) -> None:
        """The first one is in network-status by then, and the second is not yet."""
        self.an_address_is_given(name, shared, True, False)
        self.truth.name_addresses(all_=True)
        self.an_address_is_given(name, shared, True, False)
        self._pass(seconds)

    @rule(pool=st.sampled_from(POOLS), name=st.sampled_from([*NAMES, "never-was"]))
    def an_entry_of_nobody_appears(self, pool: str, name: str) -> None:
        self.truth.record_foreign(f"tenant/{name}", pool)

    @rule()
    def a_late_del_arrives(self) -> None:
        self.truth.delete_late()

    @rule()
    def network_status_is_written(self) -> None:
        self.truth.name_addresses(all_=True)

    @rule(name=st.sampled_from(["n1", "n2"]), state=st.sampled_from([True, False, None]))
    def a_node_changes(self, name: str, state: bool | None) -> None:
        if state is None:
            self.truth.nodes.pop(name, None)
        else:
            self.truth.nodes[name] = state

    # The collector.

    @rule(resource=st.sampled_from([PODS, IPPOOLS]))
    def a_watch_stalls_or_goes_on(self, resource: Resource) -> None:
        self.lagging[resource] = not self.lagging[resource]

    @rule(resource=st.sampled_from([PODS, IPPOOLS]), count=st.integers(1, 3))
    def some_news_arrive(self, resource: Resource, count: int) -> None:
        self.loop.run_until_complete(self._see(resource, count))

    async def _see(self, resource: Resource, count: int) -> None:
        self.collector.see(resource, count)

    def _news(self) -> None:
        for resource, lags in self.lagging.items():
            if not lags:
                self.loop.run_until_complete(self._see(resource, 10_000))

    @rule(seconds=st.sampled_from([1, 2, 16, 20, 70, 320]))
    def time_passes(self, seconds: int) -> None:
        self._pass(seconds)

    @rule(
        seconds=st.sampled_from([2, 18, 320]),
        faults=st.lists(FAULTS, max_size=4),
        moves=st.lists(st.sampled_from(["", "end", "start", "add", "reuse"]), max_size=4),
    )
    def time_passes_with_faults(self, seconds: int, faults: list[str], moves: list[str]) -> None:
        model = self.collector.model
        model.fault = lambda: faults.pop() if faults else ""
        model.before = lambda: self._meanwhile(moves.pop() if moves else "")
        self._pass(seconds)
        model.fault, model.before = lambda: "", lambda: None

    def _pass(self, seconds: int) -> None:
        for _ in range(steps := min(seconds, 20)):
            self._news()
            self.truth.pass_time(seconds / steps)
            self.loop.run_until_complete(self.collector.work())

    def _meanwhile(self, move: str) -> None:
        """Something happens between two requests of the collector."""
        name = NAMES[-1]
        if move == "end" and self.truth.lives(name):
            self.truth.end_pod(name, finished=False)
        elif move == "start" and name not in self.truth.pods:
            self.truth.start_pod(name, "n2", False)
        elif move == "add" and self.truth.lives(name):
            self.truth.add(name, POOLS[2], with_uid=False)
        elif move == "reuse" and self.truth.lives(name):
            pool, node = self.truth.delete_late(), self.truth.pods[name]["spec"]["nodeName"]
            if pool and RANGES[pool] in ("", node):
                self.truth.add(name, pool, with_uid=True)

    @rule(anew=st.booleans())
    def it_sweeps(self, anew: bool) -> None:
        """At the start of a new leader, who knows nothing, or after ten minutes."""
        if anew:
            self.collector = self.loop.run_until_complete(self._collector())
        else:
            self.collector.sweep()

    @precondition(lambda self: hasattr(self, "truth"))
    @invariant()
    def who_lives_has_its_address(self) -> None:
        for pool, offset in self.truth.in_use:
            assert str(offset) in self.truth.pools[pool]["spec"]["allocations"]

    def converge(self) -> None:
        """Once faults stop and news arrive, what is left is in use."""
        self.truth.name_addresses(all_=True)
        self.lagging = dict.fromkeys(self.lagging, False)
        self._news()
        self.collector.sweep()
        for _ in range(40):
            self.truth.pass_time(GRACES.lost / 8)
            self.loop.run_until_complete(self.collector.work())
            self._news()
        self.who_lives_has_its_address()
        kept = [place for place in self.truth.leaked() if not self._ambiguous(*place)]
        assert kept == []
        if not self.truth.leaked():
            assert self.collector.counters.candidates == 0

    def _ambiguous(self, pool: str, offset: str) -> bool:
        """Without a uid, the entry of an earlier pod of a name is that of the present one."""
        entry = self.truth.pools[pool]["spec"]["allocations"][offset]
        return "uid" not in entry and self.truth.lives(entry["podref"].partition("/")[2])


Cluster.TestCase.settings = settings(stateful_step_count=50)
TestLeaks = Cluster.TestCase
