"""Looking only at what changed comes to the same plan as looking at everything, at each step."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from whereabouts_fast.ipam import slices
from whereabouts_fast.ipam.holdings import (
    ACTIVE,
    COOLING,
    DRAINING,
    Action,
    Answer,
    Close,
    Confirm,
    Create,
    Delete,
    Held,
    NodeSeen,
    Observed,
    Open,
    Plan,
    PoolSeen,
)
from whereabouts_fast.ipam.incremental import Incremental, Part
from whereabouts_fast.ipam.ranges import Range
from whereabouts_fast.ipam.space import Claim

BASE = 0x0A000000
WHOLE = Range(4, BASE, 25, BASE + 1, BASE + 126)
HALF = Range(4, BASE, 26, BASE + 1, BASE + 62)
NAMES = tuple(f"n{number}" for number in range(6))
NETWORK = "blue"
_Key = tuple[str, int, int]


@dataclass
class Scene:
    """Everything there is, and which nodes have changed since the last plan."""

    now: float = 1000.0
    range: Range = WHOLE
    size: int = 28
    wanted: bool = True
    nodes: dict[str, NodeSeen] = field(default_factory=dict)
    table: tuple[Held, ...] | None = None
    pools: dict[_Key, PoolSeen] = field(default_factory=dict)
    foreign: dict[int, PoolSeen] = field(default_factory=dict)
    elsewhere: dict[int, Claim] = field(default_factory=dict)
    gone: frozenset[Held] = frozenset()
    changed: set[str] = field(default_factory=set)

    def write(self, table: Iterable[Held] | None) -> None:
        new = (
            None
            if table is None
            else tuple(sorted(table, key=lambda h: (h.base, h.prefix, h.node)))
        )
        self.changed |= {held.node for held in set(self.table or ()) ^ set(new or ())}
        self.table = new

    def put(self, pool: PoolSeen) -> None:
        self.pools[pool.node, pool.base, pool.prefix] = pool
        self.changed.add(pool.node)

    def drop(self, pool: PoolSeen) -> None:
        self.pools.pop((pool.node, pool.base, pool.prefix), None)
        self.changed.add(pool.node)

    def look(self, names: Collection[str]) -> Part:
        return Part(
            tuple(node for name, node in self.nodes.items() if name in names),
            tuple(held for held in self.table or () if held.node in names),
            tuple(pool for pool in self._ordered() if pool.node in names),
        )

    def everybody(self) -> set[str]:
        entries = {held.node for held in self.table or ()}
        return {*self.nodes, *entries, *(node for node, _, _ in self.pools)}

    def rest(self) -> Observed:
        """What there is, without the nodes and their own pools."""
        return Observed(
            network=NETWORK,
            range=self.range,
            size=self.size,
            wanted=self.wanted,
            cooldown=60.0,
            nodes=(),
            table=self.table,
            elsewhere=tuple(self.elsewhere.values()),
            pools=tuple(self.foreign.values()),
            gone=self.gone,
        )

    def whole(self) -> Observed:
        rest = self.rest()
        return replace(
            rest, nodes=tuple(self.nodes.values()), pools=(*self._ordered(), *rest.pools)
        )

    def _ordered(self) -> list[PoolSeen]:
        return [pool for _, pool in sorted(self.pools.items())]

    def follow(self, plan: Plan) -> None:
        """Write the table and do all actions."""
        self.write(plan.table)
        self.gone = frozenset()
        for action in plan.actions:
            self._do(action)

    def _do(self, action: Action) -> None:
        if isinstance(action, Create):
            self.put(pool(action.node, action.base, action.prefix, "idle"))
        elif isinstance(action, Open):
            self.put(replace(action.pool, closed=False))
        elif isinstance(action, Close):
            self.put(replace(action.pool, closed=True))
        elif isinstance(action, Delete):
            self.drop(action.pool)
        elif isinstance(action, Answer):
            self.put(replace(action.pool, want=False))
        elif isinstance(action, Confirm) and action.held in (self.table or ()):
            self.gone |= {action.held}


def pool(node: str, base: int, prefix: int, state: str, network: str = NETWORK) -> PoolSeen:
    open_ = state in ("open", "idle", "full", "wanting")
    many = {"open": 3, "used": 3, "full": 14, "wanting": 14}.get(state, 0)
    return PoolSeen(
        f"{network}-{node}-{base}-{prefix}",
        node,
        network,
        base,
        prefix,
        closed=not open_,
        empty=not many,
        leaving=state == "leaving",
        taken=tuple(range(1, 1 + many)),
        want=state == "wanting",
        idle=None if many else 900.0,
    )


BLOCKS = st.tuples(st.integers(0, 143), st.sampled_from((27, 28, 28, 28, 29))).map(
    lambda one: (BASE + (one[0] >> (32 - one[1]) << (32 - one[1])), one[1])
)
STATES = st.sampled_from(("open", "open", "idle", "full", "wanting", "used", "empty", "leaving"))
NODES = st.sampled_from(NAMES)


class Steps:
    """What may happen; each draws what it needs."""

    def __init__(self, scene: Scene, data: st.DataObject) -> None:
        self._scene = scene
        self._draw = data.draw

    def follow(self) -> None:
        scene = self._scene
        scene.follow(slices.plan(scene.whole(), scene.now))

    def add_node(self) -> None:
        name = self._draw(NODES)
        self._scene.nodes[name] = NodeSeen(f"2026-{self._draw(st.integers(1, 3))}", name)
        self._scene.changed.add(name)

    def remove_node(self) -> None:
        name = self._draw(NODES)
        self._scene.nodes.pop(name, None)
        self._scene.changed.add(name)

    def pass_time(self) -> None:
        self._scene.now += self._draw(st.sampled_from((1.0, 30.0, 61.0, -500.0)))

    def change_pool(self) -> None:
        if self._scene.pools:
            old = self._draw(st.sampled_from(sorted(self._scene.pools)))
            self._scene.put(pool(*old, self._draw(STATES)))

    def add_pool(self) -> None:
        self._scene.put(pool(self._draw(NODES), *self._draw(BLOCKS), self._draw(STATES)))

    def remove_pool(self) -> None:
        if self._scene.pools:
            at = self._draw(st.sampled_from(sorted(self._scene.pools)))
            self._scene.drop(self._scene.pools[at])

    def edit_table(self) -> None:
        held = list(self._scene.table or ())
        at = self._draw(st.integers(-len(held) - 1, len(held) - 1))
        if at >= 0:
            del held[at]
        else:
            state = self._draw(st.sampled_from((ACTIVE, ACTIVE, DRAINING, COOLING)))
            since = None if state == ACTIVE else self._scene.now
            new = Held(self._draw(NODES), *self._draw(BLOCKS), state, since)
            same = (new.node, new.base, new.prefix)
            held = [*(h for h in held if (h.node, h.base, h.prefix) != same), new]
        self._scene.write(held)

    def lose_table(self) -> None:
        self._scene.write(None)

    def edit_network(self) -> None:
        scene = self._scene
        scene.range = self._draw(st.sampled_from((WHOLE, HALF)))
        scene.size = self._draw(st.sampled_from((28, 28, 29)))
        scene.wanted = self._draw(st.sampled_from((True, True, False)))

    def change_foreign(self) -> None:
        base, prefix = self._draw(BLOCKS)
        if self._scene.foreign.pop(0, None) is None:
            self._scene.foreign[0] = pool("", base, prefix, "used", "red")

    def change_elsewhere(self) -> None:
        base, prefix = self._draw(BLOCKS)
        node = self._draw(st.sampled_from(("", *NAMES)))
        if self._scene.elsewhere.pop(0, None) is None:
            self._scene.elsewhere[0] = (base, base + (1 << (32 - prefix)) - 1, node)


STEPS = tuple(name for name in vars(Steps) if not name.startswith("_"))


@given(
    st.integers(0, len(NAMES)),
    st.lists(st.sampled_from(("follow", *STEPS)), min_size=8, max_size=25),
    st.data(),
)
def test_the_incremental_plan_equals_the_full_one_at_each_step(
    count: int, steps: list[str], data: st.DataObject
) -> None:
    scene, incremental = Scene(), Incremental()
    for name in NAMES[:count]:
        scene.nodes[name] = NodeSeen("2026-1", name)
    happens = Steps(scene, data)
    # Most of what can happen is of interest only to nodes that had nothing left to do before.
    for step in ("follow", "follow", "follow", *steps):
        getattr(happens, step)()
        found = incremental.plan(
            scene.rest(), scene.everybody, frozenset(scene.changed), scene.look, scene.now
        )
        scene.changed.clear()
        assert found == slices.plan(scene.whole(), scene.now)
