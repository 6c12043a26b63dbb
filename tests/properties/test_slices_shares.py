"""Shares that grow and shrink: no oscillation, nothing kept back is dealt, no need is missed."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.properties.slices_model import IDLE, Api, Controller, Network, RefusedError
from tests.properties.test_slices_plan import NOW, key, observations, useful
from whereabouts_fast.controller.claims import Source
from whereabouts_fast.controller.networks import Wanted
from whereabouts_fast.controller.poolmap import PoolMap
from whereabouts_fast.controller.shares import Shares
from whereabouts_fast.ipam import netconf, ranges
from whereabouts_fast.ipam.holdings import ACTIVE, Held, NodeSeen, Observed
from whereabouts_fast.ipam.slices import plan
from whereabouts_fast.ipam.space import FreeSlices
from whereabouts_fast.resources.pools import PoolView, decode_pool, encode_pool

KINDS = ("network", "nodes", "pools", "table")


@given(
    nodes=st.integers(1, 3),
    sizes=st.lists(st.sampled_from([28, 29, 30, 31, 32]), min_size=1, max_size=3),
    slice_max=st.integers(1, 8),
    holes=st.sampled_from([[], ["10.0.0.4/30"], ["10.0.0.0/28", "10.0.0.40"]]),
    bursts=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 20)), max_size=8),
    leavers=st.lists(st.integers(0, 60), max_size=40),
)
def test_shares_stand_still_as_long_as_no_address_comes_or_goes(
    nodes: int,
    sizes: list[int],
    slice_max: int,
    holes: list[str],
    bursts: list[tuple[int, int]],
    leavers: list[int],
) -> None:
    """Each node first grows and then shrinks, if at all, and all of it ends."""
    whole = ranges.build("10.0.0.0/26")
    api = Api(Network(whole, sizes[0], slice_max=slice_max))
    for number in range(nodes):
        api.add_node(f"n{number}")
    controller = Controller(api)

    def lead() -> None:
        for kind in KINDS:
            getattr(controller, f"refresh_{kind}")()
        controller.finish()

    lead()
    lead()
    for at, (which, pods) in enumerate(bursts):
        # Sizes and exclusions change on the way, so that shares are of unlike parts.
        holed = ranges.build("10.0.0.0/26", exclude=holes if at > 2 else [])
        api.network = Network(holed, sizes[at % len(sizes)], slice_max=slice_max)
        for pod in range(pods):
            names = sorted(api.pools)
            with suppress(RefusedError):
                api.add(names[(which + pod) % len(names)])
        lead()
    for leaver in leavers:
        used = sorted((pool.name, a) for pool in api.pools.values() for a in pool.used)
        if used:
            api.remove(*used[leaver % len(used)])
    history: list[dict[str, int]] = []
    writes = -1
    for _ in range(100):
        lead()
        if api.writes == writes and controller.last is not None and controller.last.again is None:
            break
        writes = api.writes
        held = api.table.held if api.table else ()
        history.append(
            {name: sum(h.node == name and h.state == ACTIVE for h in held) for name in api.nodes}
        )
        api.now += IDLE / 2
    else:
        raise AssertionError("does not end")
    for name in api.nodes:
        counts = [known[name] for known in history]
        falls = [at for at in range(1, len(counts)) if counts[at] < counts[at - 1]]
        if falls:
            rest = counts[falls[0] :]
            assert rest == sorted(rest, reverse=True), "what has shrunk does not grow"


@given(observations(), st.integers(1, 3))
def test_growth_takes_neither_what_is_kept_back_nor_what_nodes_wait_for(
    observed: Observed, slice_max: int
) -> None:
    full = tuple(
        replace(pool, taken=tuple(range(8)) if not pool.empty else (), want=not pool.closed)
        for pool in observed.pools
    )
    seen = replace(observed, pools=full, slice_max=slice_max)
    decided = plan(seen, NOW)
    known = {key(entry) for entry in seen.table or ()} | {key(pool) for pool in seen.pools}
    table = [entry for entry in decided.table or () if entry.state == ACTIVE]
    new = [entry for entry in table if key(entry) not in known]
    kept = FreeSlices(seen.range, seen.size, ()).count() // 10
    grown = [e for e in new if sum(other.node == e.node for other in table) > 1]
    before = {
        node.name: sum(e.node == node.name and useful(seen, e) for e in table if key(e) in known)
        for node in seen.nodes
    }
    for entry in grown:
        if before.get(entry.node):
            assert decided.figures.free >= kept
            assert not decided.waiting
            count = sum(e.node == entry.node and useful(seen, e) for e in table)
            assert count <= slice_max


class Watched:
    """One network whose plans are made only when a change of a pool calls for one."""

    def __init__(self, cidr: str, size: int, slice_max: int) -> None:
        ipam: dict[str, object] = {"type": "whereabouts", "range": cidr, "network_name": "blue"}
        ipam |= {"node_slice_size": size, "node_slice_max": slice_max}
        (self.network,) = netconf.parse({"name": "x", "ipam": ipam}).networks
        self.size = size
        self.now = 1000.0
        self.due = self.now
        self.cache: dict[str, PoolView] = {}
        self.map = PoolMap(self.cache.get)
        self.shares = Shares(self.map.on, IDLE, lambda: self.now)
        self.shares.serve(
            [Wanted(self.network, size, "blue", (Source("1", "tenant", "blue", "u"),))]
        )
        self.nodes = (NodeSeen("1", "n1"), NodeSeen("2", "n2"))
        self.table: tuple[Held, ...] = ()
        self.version = 0
        self.work()

    def observe(self) -> Observed:
        return Observed(
            network="blue",
            range=self.network.range,
            size=self.size,
            wanted=True,
            cooldown=60.0,
            nodes=self.nodes,
            table=self.table,
            pools=tuple(pool.seen(idle=self.shares.idle(pool)) for pool in self.map.values()),
            slice_max=self.network.slice_max,
            idle_seconds=IDLE,
        )

    def work(self) -> None:
        """Plan until nothing changes; slices that go back are free at once."""
        while True:
            decided = plan(self.observe(), self.now)
            self.shares.planned("blue", decided.stuck)
            held = tuple(h for h in decided.table or () if h.state == ACTIVE)
            self.due = float("inf") if decided.again is None else self.now + decided.again
            if held == self.table:
                return
            before, self.table = self.table, held
            for gone in set(before) - set(held):
                self.deliver(gone, None)
            for new in set(held) - set(before):
                self.deliver(new, 0)

    def deliver(self, held: Held, used: int | None) -> None:
        """Let the watch tell of a pool with so many addresses in use, or of its end."""
        self.version += 1
        cidr = f"10.0.0.{held.base & 255}/{held.prefix}"
        raw = encode_pool(
            namespace="s", cidr=cidr, node=held.node, network="blue", network_name="blue",
            closed=False,
        )  # fmt: skip
        raw["metadata"] |= {"uid": f"{held.node}{cidr}", "resourceVersion": str(self.version)}
        first = int(self.network.range.base == held.base)
        raw["spec"]["allocations"] = {str(first + at): {} for at in range(used or 0)}
        new = decode_pool(raw)
        old = self.cache.pop(new.key, None)
        if used is not None:
            self.cache[new.key] = new
        self.map.observe(old, None if used is None else new)
        wait = self.shares.used(old, None if used is None else new)
        if wait is not None:
            self.due = min(self.due, self.now + wait)


@given(
    size=st.sampled_from([28, 29, 30]),
    slice_max=st.integers(1, 6),
    steps=st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 16), st.sampled_from([0.0, 0.0, 50.0, 201.0])),
        max_size=25,
    ),
)
def test_what_is_planned_on_a_change_alone_is_what_planning_always_gives(
    size: int, slice_max: int, steps: list[tuple[int, int, float]]
) -> None:
    watched = Watched("10.0.0.0/26", size, slice_max)
    for which, count, seconds in steps:
        held = watched.table[which % len(watched.table)]
        unusable = (held.base == watched.network.range.base) + (
            held.base + (1 << (32 - size)) - 1 == watched.network.range.end
        )
        watched.deliver(held, min(count, (1 << (32 - size)) - unusable))
        watched.now += seconds
        if watched.due <= watched.now:
            watched.work()
        always = plan(watched.observe(), watched.now)
        assert always.table == watched.table
