"""The pools that all nodes share: which to create, adopt, open, close and delete.

A pool is *attached* once a NetworkAttachmentDefinition was seen to ask for it, and carries that
fact itself. Only such a pool is closed when nobody asks any more: others belong to configurations
that lie in files on nodes, of which no object tells.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class SharedSeen:
    """An existing pool without a node; `network` is "" where its writer did not record it."""

    name: str
    network: str
    attached: bool
    closed: bool
    empty: bool


@dataclass(frozen=True, slots=True)
class SharedPlan:
    """Names of pools, each list in the order of names.

    `adopt`: record that it is attached, and its network. What is in `open` may be in `create` or
    `adopt` too; it is opened last, once nothing overlaps it unseen.
    """

    create: list[str] = field(default_factory=list)
    adopt: list[str] = field(default_factory=list)
    close: list[str] = field(default_factory=list)
    delete: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)


def plan(
    wanted: Iterable[str], sliced: Mapping[str, frozenset[str]], pools: Iterable[SharedSeen]
) -> SharedPlan:
    """Decide what to do about the shared pools of one address space.

    `wanted`: names of the pools that NetworkAttachmentDefinitions ask for. `sliced`: name that the
    shared pool of a range would have -> names of the networks of that range in slice mode.
    Source of the rules: ARCHITECTURE.md, classic pools.
    """
    wanted = frozenset(wanted)
    seen = {pool.name: pool for pool in pools}
    result = SharedPlan()
    for name in sorted(wanted | seen.keys()):
        pool = seen.get(name)
        if pool is None:
            result.create.append(name)
            result.open.append(name)
        elif name in wanted:
            if not (pool.attached and pool.network):
                result.adopt.append(name)
            if pool.closed:
                result.open.append(name)
        elif not _retired(pool, sliced.get(name, frozenset())):
            if pool.closed:
                result.open.append(name)
        elif not pool.closed:
            result.close.append(name)
        elif pool.empty:
            result.delete.append(name)
    return result


def _retired(pool: SharedSeen, networks: frozenset[str]) -> bool:
    # The network has changed to slice mode while no controller looked. Of a pool that does not
    # say whose it is, only an empty one is surely missed by nobody.
    return pool.attached or pool.network in networks or (bool(networks) and _nobodys(pool))


def _nobodys(pool: SharedSeen) -> bool:
    return not pool.network and pool.empty
