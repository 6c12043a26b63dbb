"""Whatever the informers deliver and we write, a plan from changes equals one from everything."""

from __future__ import annotations

import json
from itertools import count
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from whereabouts_fast.controller import claims
from whereabouts_fast.controller.networks import Resolution, resolve
from whereabouts_fast.controller.overlaps import informed, networks_of
from whereabouts_fast.controller.plans import Plans
from whereabouts_fast.controller.shares import Shares
from whereabouts_fast.controller.units import Unit, Units
from whereabouts_fast.controller.world import Changes, World
from whereabouts_fast.ipam import slices
from whereabouts_fast.ipam.holdings import (
    Answer,
    Close,
    Create,
    Delete,
    Figures,
    Held,
    Open,
    Plan,
)
from whereabouts_fast.kube.client import Client
from whereabouts_fast.resources.attachments import decode_attachment
from whereabouts_fast.resources.pools import encode_pool
from whereabouts_fast.resources.tables import encode_table

SYSTEM = "ipam-system"
NODES = ("n1", "n2", "n3", "n4", "a-node-with-a-name-" + "x" * 230)
# Name of the network -> its range; the first two meet nowhere, the third meets both.
RANGES = {"low": "10.0.0.0/25", "high": "10.0.0.128/25", "wide": "10.0.0.0/24"}
STEPS = ("node", "pool", "pool", "table", "networks", "time", "follow", "follow", "follow")


def nad(name: str, size: int, selector: str) -> dict[str, Any]:
    ipam = {"type": "whereabouts", "range": RANGES[name], "node_slice_size": f"/{size}"}
    config = {"cniVersion": "1.0.0", "name": name, "type": "macvlan", "ipam": ipam}
    metadata = {"namespace": "tenant", "name": name, "uid": name, "creationTimestamp": "2026"}
    notes = {"k8s.v1.cni.cncf.io/nodeSelector": selector} if selector else {}
    return {"metadata": {**metadata, "annotations": notes}, "spec": {"config": json.dumps(config)}}


class Scene:
    """The caches of a controller whose server is this test."""

    def __init__(self, data: st.DataObject) -> None:
        self._draw = data.draw
        self._numbers = count(1)
        self.now = 1000.0
        self.world = World.watching(cast("Client", None), SYSTEM)
        shares = Shares(self.world.pools_on, 300.0, lambda: self.now)
        self.units = Units(self.world, shares)
        self.plans = Plans(self.world, self.units, lambda: self.now)
        changes = Changes(node=self.plans.node_changed, moved=self.plans.pool_changed)
        self.world.begin_term(changes)
        self.resolution = Resolution()
        self.serve(["low", "high"])

    def serve(self, names: list[str]) -> None:
        size = self._draw(st.sampled_from((28, 28, 27)))
        selector = self._draw(st.sampled_from(("", "", "zone=a", "zone in (")))
        readings = [claims.read(decode_attachment(nad(name, size, selector))) for name in names]
        self.resolution = resolve(readings, ())

    def of_space(self) -> list[Unit]:
        networks = networks_of("", self.resolution)
        return informed(self.units.of("", self.resolution), networks, self.world.latest_pools)

    # What may happen.

    def node(self) -> None:
        name = self._draw(st.sampled_from(NODES))
        labels = {"zone": self._draw(st.sampled_from("ab"))}
        metadata = {"name": name, "creationTimestamp": "2026", "labels": labels}
        self._deliver(
            "nodes", {"metadata": metadata}, self._draw(st.sampled_from((False, True, True, True)))
        )

    def pool(self) -> None:
        pools = self.world.latest_pools.values()
        one = self._draw(st.sampled_from(sorted(pools, key=lambda p: p.name))) if pools else None
        if one is None or self._draw(st.integers(0, 5)) == 0:
            base = self._draw(st.integers(0, 17)) * 16
            node = self._draw(st.sampled_from(NODES[:4]))
            self._write_pool(node, f"10.0.{base >> 8}.{base & 255}/28", "low")
        elif self._draw(st.booleans()):
            self._write_pool(one.node, one.range, one.network, exact=one.exact)
        else:
            raw = {"metadata": {"namespace": SYSTEM, "name": one.name, "uid": one.uid}}
            self._deliver("pools", raw, False)

    def table(self) -> None:
        for unit in self.of_space():
            held = () if unit.table is None else unit.table.held
            lost = self._draw(st.integers(-len(held) - 1, len(held) - 1))
            if lost >= 0:
                self._write_table(unit, (*held[:lost], *held[lost + 1 :]))

    def networks(self) -> None:
        self.serve(self._draw(st.sampled_from((["low", "high"], ["low"], ["low", "wide"]))))

    def time(self) -> None:
        self.now += self._draw(st.sampled_from((1.0, 61.0, 301.0)))

    def follow(self) -> None:
        for unit in self.of_space():
            others = [one for one in self.of_space() if one.table_name != unit.table_name]
            plan = slices.plan(self.units.observe(unit, others, frozenset()), self.now)
            self._follow(unit, plan)

    def _follow(self, unit: Unit, plan: Plan) -> None:
        if plan.table is None:
            if unit.table is not None:
                metadata = {"namespace": SYSTEM, "name": unit.table_name, "uid": unit.table.uid}
                self._deliver("tables", {"metadata": metadata}, False)
            return
        self._write_table(unit, plan.table)
        for action in plan.actions:
            if isinstance(action, Create):
                cidr = unit.cidr(action.base, action.prefix)
                self._write_pool(action.node, cidr, unit.network, closed=False, used=0)
            elif isinstance(action, Open | Close):
                pool, closed = action.pool, isinstance(action, Close)
                cidr = unit.cidr(pool.base, pool.prefix)
                self._write_pool(pool.node, cidr, unit.network, closed=closed)
            elif isinstance(action, Delete):
                metadata = {"namespace": SYSTEM, "name": action.pool.name, "uid": "u"}
                self._deliver("pools", {"metadata": metadata}, False)
            elif isinstance(action, Answer):
                cidr = unit.cidr(action.pool.base, action.pool.prefix)
                self._write_pool(action.pool.node, cidr, unit.network, closed=False)

    def _write_pool(
        self,
        node: str,
        cidr: str,
        network: str,
        *,
        closed: bool | None = None,
        used: int | None = None,
        exact: bool = True,
    ) -> None:
        shut = self._draw(st.booleans()) if closed is None else closed
        taken = self._draw(st.sampled_from((0, 0, 3, 14))) if used is None else used
        raw = encode_pool(
            namespace=SYSTEM, cidr=cidr, node=node, network=network, network_name="", closed=shut
        )
        if not exact or (closed is None and self._draw(st.integers(0, 15)) == 0):
            # As whereabouts writes it.
            raw["spec"].pop("network")
            raw["spec"].pop("node", None)
        entry = {"id": "c", "podref": "tenant/p"}
        raw["spec"]["allocations"] = {str(offset): entry for offset in range(1, 1 + taken)}
        if self._draw(st.integers(0, 5)) == 0:
            raw["metadata"]["annotations"] = {"whereabouts-fast.io/want": "tenant/p/net1"}
        self._deliver("pools", raw, True)

    def _write_table(self, unit: Unit, held: tuple[Held, ...]) -> None:
        table = unit.refreshed(self.world).table
        raw = encode_table(
            table,
            namespace=SYSTEM,
            name=unit.table_name,
            network=unit.network,
            network_name=unit.space,
            version=unit.range.version,
            cidr=unit.range.cidr,
            size=unit.size,
            held=held,
            figures=Figures(0, 0, 0, 0),
            waiting=0,
            conditions=(),
            now=self.now,
        )
        self._deliver("tables", raw, True)

    def _deliver(self, kind: str, raw: dict[str, Any], there: bool) -> None:
        """Bring another state of an object by an event, or by an answer that comes before it."""
        metadata = {"uid": "u", **raw["metadata"], "resourceVersion": str(next(self._numbers))}
        raw = {**raw, "metadata": metadata}
        informer = getattr(self.world, kind)
        latest = getattr(self.world, f"latest_{kind}", None)
        if latest is not None and there and self._draw(st.booleans()):
            made = latest.decode(raw)
            write = latest.recent.begin(made.key)
            latest.recent.wrote(write, made)
            latest.recent.end(write)
            if self._draw(st.booleans()):
                return
        if there:
            informer._cache.changed(raw)
        else:
            informer._cache.deleted(raw)


@given(st.lists(st.sampled_from(STEPS), min_size=5, max_size=20), st.data())
def test_a_plan_from_changes_equals_one_from_everything(
    steps: list[str], data: st.DataObject
) -> None:
    scene = Scene(data)
    for step in ("node", "node", "node", "follow", "follow", *steps):
        getattr(scene, step)()
        units = scene.of_space()
        for unit in units:
            others = [one for one in units if one.table_name != unit.table_name]
            made = scene.plans.make(unit, others, frozenset())
            full = slices.plan(scene.units.observe(unit, others, frozenset()), scene.now)
            assert made.plan == full
            assert sorted(made.unnamable) == sorted(scene.units.unnamable(unit))
