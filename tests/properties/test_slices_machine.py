"""Two controllers, plugins, nodes and a clock in any interleaving, against a model of the API."""

from __future__ import annotations

from contextlib import suppress
from itertools import combinations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.properties.slices_model import COOLDOWN, Api, Controller, Network, RefusedError
from whereabouts_fast.ipam import ranges
from whereabouts_fast.ipam.holdings import ACTIVE, DRAINING, Held

Key = tuple[str, int, int]
KINDS = ["network", "nodes", "pools", "table"]
NEWS = st.one_of(st.just(set(KINDS)), st.sets(st.sampled_from(KINDS)))
NODES = [f"n{number}" for number in range(6)]
RANGES = [
    ranges.build("10.0.0.0/28"),
    ranges.build("10.0.0.0/29"),
    ranges.build("10.0.0.0/28", exclude=["10.0.0.4/30"]),
]


class Cluster(RuleBasedStateMachine):
    @initialize(nodes=st.integers(0, len(NODES)), pods=st.integers(0, 8))
    def start(self, nodes: int, pods: int) -> None:
        self.api = Api(Network(RANGES[0], 30))
        self.lost_tables = 0
        for name in NODES[:nodes]:
            self.api.add_node(name)
        self.controllers = [Controller(self.api), Controller(self.api)]
        if nodes:
            self.controllers[0].finish()
            self.controllers[0].finish()
        for number in range(pods):
            names = sorted(self.api.pools)
            if names:
                self.api.add(names[number % len(names)])
        self.controllers[1] = Controller(self.api)

    # The world

    @rule(name=st.sampled_from(NODES))
    def node_comes_or_goes(self, name: str) -> None:
        if self.api.nodes.pop(name, None) is None:
            self.api.add_node(name)

    @rule(data=st.data())
    def pods_start(self, data: st.DataObject) -> None:
        # Also on nodes that are gone: a partitioned node's plugin still writes.
        for name in data.draw(st.lists(st.sampled_from(sorted(self.api.pools) or [""]))):
            with suppress(RefusedError):
                self.api.add(name)

    @rule(data=st.data())
    def pods_stop(self, data: st.DataObject) -> None:
        used = [(p.name, a) for p in self.api.pools.values() for a in sorted(p.used)]
        if used:
            stopped = data.draw(st.lists(st.sampled_from(sorted(used)), unique=True))
            for name, address in stopped:
                self.api.remove(name, address)

    @rule(seconds=st.sampled_from([1.0, COOLDOWN / 2, COOLDOWN, 3600.0, -3600.0]))
    def time_passes(self, seconds: float) -> None:
        self.api.now += seconds

    @rule(
        whole=st.sampled_from(RANGES),
        size=st.sampled_from([29, 30, 30, 31]),
        wanted=st.sampled_from([True, True, False]),
        slice_max=st.sampled_from([1, 2, 8]),
    )
    def network_is_edited(
        self, whole: ranges.Range, size: int, wanted: bool, slice_max: int
    ) -> None:
        self.api.network = Network(whole, size, wanted, slice_max)

    @precondition(lambda self: self.api.table is not None)
    @rule()
    def table_is_deleted_by_hand(self) -> None:
        self.api.table = None
        self.lost_tables += 1

    # The controllers: four rules of ten, so that most runs get somewhere

    @rule(which=st.integers(0, 1), news=NEWS, requests=st.integers(1, 8))
    def controller_works(self, which: int, news: set[str], requests: int) -> None:
        self.tell(which, news)
        for _ in range(requests):
            self.controllers[which].step()
            self.check()

    @rule(which=st.integers(0, 1), news=NEWS)
    def controller_finishes(self, which: int, news: set[str]) -> None:
        self.tell(which, news)
        while self.controllers[which].step():
            self.check()

    @rule(which=st.integers(0, 1), rounds=st.integers(1, 4))
    def controller_leads_for_minutes(self, which: int, rounds: int) -> None:
        # Long enough, while the other is paused anywhere, for a slice to find another holder, and
        # for empty ones to go back.
        for _ in range(rounds):
            self.controller_finishes(which, set(KINDS))
            self.api.now += COOLDOWN

    @rule(which=st.integers(0, 1))
    def controller_is_killed(self, which: int) -> None:
        self.controllers[which] = Controller(self.api)

    def tell(self, which: int, news: set[str]) -> None:
        for kind in sorted(news):
            getattr(self.controllers[which], f"refresh_{kind}")()

    # What must hold after each step

    @invariant()
    def check(self) -> None:
        api = getattr(self, "api", None)
        if api is None:
            return
        pools = list(api.pools.values())
        for one, other in combinations(pools, 2):
            if set(one.addresses) & set(other.addresses):
                assert one.closed or other.closed, (one, other)
                assert not one.used & other.used, (one, other)
        if api.table is None:
            return
        held = api.table.held
        for left, right in combinations(held, 2):
            assert left.base + (1 << (32 - left.prefix)) <= right.base, "no two held slices overlap"
        entries = {(h.node, h.base, h.prefix) for h in held}
        for pool in pools:
            if (pool.used or not pool.closed) and pool.key not in entries:
                # Only a pool outside an edited range can be left without a table, and lost with it.
                assert self.lost_tables, "nobody can write to, or live in, a slice dealt on"
                last = pool.addresses[-1]
                assert not any(
                    h.base <= last and pool.base < h.base + (1 << (32 - h.prefix)) for h in held
                )

    def teardown(self) -> None:
        """However it went, one controller with current data comes to the right end."""
        if not hasattr(self, "api"):
            return
        end = Controller(self.api)
        writes = -1
        for _ in range(40):
            for kind in KINDS:
                getattr(end, f"refresh_{kind}")()
            end.finish()
            self.check()
            if writes == self.api.writes and end.last is not None and end.last.again is None:
                break
            writes = self.api.writes
            self.api.now += COOLDOWN
        else:
            raise AssertionError("does not converge")
        self.check_end(end)

    def check_end(self, end: Controller) -> None:
        held = self.api.table.held if self.api.table else ()
        assert end.last is not None
        assert end.last.actions == ()
        assert end.last.disputed == ()
        active = {h.node for h in held if h.state == ACTIVE}
        pools = {pool.key: pool for pool in self.api.pools.values()}
        network = self.api.network
        for one in held:
            assert one.state in (ACTIVE, DRAINING)
            key = key_of(one)
            if one.state == ACTIVE:
                assert one.node in self.api.nodes
                assert not pools[key].closed
            else:
                assert pools[key].closed
                assert pools[key].used, "what drains is waiting for its last address"
        lost = set(pools) - {key_of(h) for h in held}
        assert not lost or self.lost_tables
        assert all(pools[key].addresses[0] > network.range.end for key in lost)
        if not network.wanted:
            assert not active
            assert (self.api.table is None) == (not held)
            return
        useful = {
            h.node
            for h in held
            if h.state == ACTIVE and any(map(network.range.usable, pools[key_of(h)].addresses))
        }
        assert useful | set(end.last.waiting) == set(self.api.nodes)
        assert not useful & set(end.last.waiting)
        self.check_shares(end, {key_of(h) for h in held if h.state == ACTIVE})
        if end.last.waiting:
            assert end.last.figures.free == 0
        for node in self.api.nodes:
            live = [
                p
                for p in self.api.pools.values()
                if p.node == node
                and p.used
                and network.range.base <= p.addresses[0]
                and p.addresses[-1] <= network.range.end
                and any(map(network.range.usable, p.addresses))
            ]
            if live:
                assert node in active, "a node with live addresses keeps its slice"

    def check_shares(self, end: Controller, active: set[Key]) -> None:
        assert end.last is not None
        for name in self.api.nodes:
            mine = [p for p in self.api.pools.values() if p.node == name and p.key in active]
            addresses = {address for pool in mine for address in pool.addresses}
            usable = set(filter(self.api.network.range.usable, addresses))
            free = len(usable - {address for pool in mine for address in pool.used})
            assert not any(pool.want for pool in mine), "every want is answered"
            if usable and (free < 1 or free * 10 < len(usable)):
                assert name in end.last.stuck, "who runs short grows, or there is a reason"
            else:
                assert name not in end.last.stuck


def key_of(held: Held) -> Key:
    return held.node, held.base, held.prefix


TestCluster = Cluster.TestCase
TestCluster.settings = settings(stateful_step_count=40, report_multiple_bugs=False)
