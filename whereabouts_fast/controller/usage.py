"""Who uses which address: pods, the allocations that name each, and reservations.

A pod's event looks at its own allocations only, however many there are in the cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from whereabouts_fast.controller.world import World
from whereabouts_fast.ipam import address, leaks
from whereabouts_fast.ipam.leaks import Allocation, Claim, Pod
from whereabouts_fast.kube.client import Client
from whereabouts_fast.kube.hooks import WatchHook
from whereabouts_fast.kube.informer import Informer
from whereabouts_fast.kube.resource import PODS, RESERVATIONS
from whereabouts_fast.resources.pods import decode_pod
from whereabouts_fast.resources.pools import PoolView
from whereabouts_fast.resources.reservations import ReservationView, decode_reservation
from whereabouts_fast.resources.tables import TableView

_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
_BY_POD = "pod"

# The name and uid of a VirtualMachineInstance; the uid is "" when nothing says it.
Machine = tuple[str, str]


def nobody(_: str) -> None:
    """Nobody is told."""


@dataclass(slots=True)
class Usage:
    """The caches of one process; `changed` is told of each pod about which anything changed."""

    world: World
    pods: Informer[Pod]
    reservations: Informer[ReservationView]
    changed: Callable[[str], None] = nobody
    # Of pods that are gone, while an allocation still names them.
    _machines: dict[str, Machine] = field(default_factory=dict)
    _entries: dict[str, tuple[Allocation, ...]] = field(default_factory=dict)

    @classmethod
    def watching(cls, client: Client, world: World, hook: WatchHook | None = None) -> Usage:
        """Build the informers; none runs yet. Finished pods are as good as gone."""
        usage = cls(
            world,
            Informer(
                client,
                PODS,
                decode=decode_pod,
                metadata_only=True,
                field_selector=_UNFINISHED,
                hook=hook,
            ),
            Informer(
                client,
                RESERVATIONS,
                decode=decode_reservation,
                namespace=world.namespace,
                indexes={_BY_POD: lambda one: (one.holder.podref,)},
                hook=hook,
            ),
        )
        usage.pods.add_handler(usage._pod_changed)
        usage.reservations.add_handler(usage._reservation_changed)
        world.pools.add_handler(usage._pool_changed)
        return usage

    @property
    def informers(self) -> tuple[Informer[Pod], Informer[ReservationView]]:
        """The informers that this adds to those of the world."""
        return self.pods, self.reservations

    def pod(self, podref: str) -> Pod | None:
        """Return the pod of a name that is neither gone nor finished, as last seen."""
        return self.pods.get(podref)

    def machine(self, podref: str) -> Machine | None:
        """Return the machine whose pod this was, when it was seen alive."""
        return self._machines.get(podref)

    def podrefs(self) -> set[str]:
        """Return the names of all pods that have an allocation or a reservation."""
        reserved = {one.holder.podref for one in self.reservations.values()}
        return self._entries.keys() | reserved

    def entries(self, podref: str) -> tuple[Allocation, ...]:
        """Return all allocations that name a pod, in pools that can be read."""
        return self._entries.get(podref, ())

    def reserved(self, podref: str) -> list[ReservationView]:
        """Return all reservations that name a pod."""
        return self.reservations.by_index(_BY_POD, podref)

    def claims(self, podref: str) -> list[Claim]:
        """Return all allocations that name a pod, each with its address and range."""
        found = []
        for entry in self.entries(podref):
            pool = self.world.pool(entry.pool)
            if pool is not None and not pool.problem:
                found.append(Claim(self._range(pool), pool.base + entry.offset, entry))
        return found

    def node_of(self, pool: PoolView) -> str:
        """Return whose slice a pool is; "" when all nodes share it, or nothing says."""
        if pool.node or pool.exact:
            return pool.node
        # whereabouts wrote it, which records the node in the table alone.
        for table in self.world.all_tables():
            for held in table.held if table.version == pool.version else ():
                same = (held.base, held.prefix) == (pool.base, pool.prefix)
                if same and f"-{pool.stem}".endswith(f"-{held.node}"):
                    return held.node
        return ""

    def _range(self, pool: PoolView) -> str:
        """Return what the pools of one range have in common: their table, else their own name."""
        if pool.exact and pool.node:
            for table in self.world.latest_tables.of(pool.space):
                of = (table.network, table.version)
                if of == (pool.network, pool.version) and _inside(pool, table):
                    return f"{table.name}/"
        return pool.name

    # Handlers.

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old == new:
            return
        one = new or old
        if one is None:
            return
        if old is not None and old.machine and one.podref in self._entries:
            self._machines[one.podref] = (old.machine, old.machine_uid)
        if one.podref in self._entries or self.reserved(one.podref):
            self.changed(one.podref)

    def _reservation_changed(
        self, old: ReservationView | None, new: ReservationView | None
    ) -> None:
        for podref in {one.holder.podref for one in (old, new) if one is not None}:
            self.changed(podref)

    def _pool_changed(self, old: PoolView | None, new: PoolView | None) -> None:
        before, after = _entries(old), _entries(new)
        marked = new is not None and new.overlapping and not (old is not None and old.overlapping)
        if before == after and not marked:
            return
        gone = leaks.by_podref(before - after)
        come = leaks.by_podref(after - before)
        for podref in gone.keys() | come.keys():
            lost = set(gone.get(podref, ()))
            kept = [entry for entry in self._entries.get(podref, ()) if entry not in lost]
            kept += come.get(podref, ())
            if kept:
                self._entries[podref] = tuple(kept)
            else:
                self._entries.pop(podref, None)
                self._machines.pop(podref, None)
        for podref in leaks.by_podref(after) if marked else gone.keys() | come.keys():
            self.changed(podref)


def _entries(pool: PoolView | None) -> set[Allocation]:
    return set(pool.entries) if pool is not None else set()


def _inside(pool: PoolView, table: TableView) -> bool:
    return 0 <= pool.base - table.base < 1 << (address.width(table.version) - table.prefix)
