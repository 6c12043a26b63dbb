"""When the use of a pool is worth a plan, and since when pools are empty.

Addresses come and go all the time, and hardly any of that changes who holds which slice. How long
a pool has been empty is remembered here and nowhere else: a controller that begins to lead waits
for the whole time once more, and nothing else comes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from whereabouts_fast.controller.networks import Wanted
from whereabouts_fast.ipam.holdings import Held
from whereabouts_fast.ipam.shares import Share, part
from whereabouts_fast.resources.pools import PoolView


class Shares:
    """What one term of leadership remembers of the use of pools.

    `pools_on` returns a node's slice pools, `now` seconds since the epoch.
    """

    def __init__(
        self,
        pools_on: Callable[[str], Iterable[PoolView]],
        idle_seconds: float,
        now: Callable[[], float],
    ) -> None:
        self._pools_on = pools_on
        self._now = now
        self.idle_seconds = idle_seconds
        """How long a slice is empty before it may go back."""
        self._empty: dict[str, float] = {}
        self._stuck: dict[str, Collection[str]] = {}
        self._wanted: dict[tuple[str, str], list[Wanted]] = {}

    def serve(self, networks: Iterable[Wanted]) -> None:
        """Take note of which networks are served."""
        self._wanted = {}
        for one in networks:
            self._wanted.setdefault((one.space, one.network.name), []).append(one)

    def planned(self, table: str, stuck: Mapping[str, str]) -> None:
        """Take note of which nodes run short in vain: only another plan could help them."""
        self._stuck[table] = stuck.keys()

    def idle(self, pool: PoolView) -> float | None:
        """Return since when a pool has been seen empty, None when it is not."""
        if pool.used:
            return None
        return self._empty.setdefault(pool.uid, self._now())

    def used(self, old: PoolView | None, new: PoolView | None) -> float | None:
        """Take note of a changed pool; return in how many seconds it is worth a plan, if at all."""
        if old is not None and (new is None or new.uid != old.uid or new.used):
            self._empty.pop(old.uid, None)
        if new is None or new.closed or not new.node or not new.exact:
            return None
        self.idle(new)
        if old is not None and old.taken == new.taken:
            return None
        network = self._network(new)
        return None if network is None else self._due(network, new.node)

    def _network(self, pool: PoolView) -> Wanted | None:
        for one in self._wanted.get((pool.space, pool.network), ()):
            whole = one.network.range
            if whole.version == pool.version and whole.base <= pool.base <= whole.end:
                return one
        return None

    def _due(self, network: Wanted, node: str) -> float | None:
        whole = network.network.range
        share = Share()
        for pool in self._pools_on(node):
            if (
                not pool.closed
                and (pool.space, pool.network) == (network.space, network.network.name)
                and pool.version == whole.version
                and whole.base <= pool.base
                and pool.last <= whole.end
            ):
                seen = pool.seen(idle=self.idle(pool))
                share.add(part(whole, Held(node, pool.base, pool.prefix), seen))
        if share.short:
            return None if node in self._stuck.get(network.table, ()) else 0.0
        return share.again(self._now(), self.idle_seconds)
