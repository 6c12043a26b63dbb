"""The values that a slice plan is made from and of: what was observed, what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from whereabouts_fast.ipam.ranges import Range
    from whereabouts_fast.ipam.space import Claim, Interval

ACTIVE = "Active"
DRAINING = "Draining"
COOLING = "Cooling"


@dataclass(frozen=True, slots=True)
class Held:
    """One entry of the slice table.

    `since` is in seconds since the epoch, whole microseconds at most (what the table's text can
    hold), and None for active slices. Free slices have no entry.
    """

    node: str
    base: int
    prefix: int
    state: str = ACTIVE
    since: float | None = None


def difference(before: Collection[Held], after: Collection[Held]) -> tuple[list[Held], list[Held]]:
    """Return the entries that only the first, and those that only the second of two tables has.

    Most entries of two versions of a table are the same objects, which are passed over unread.
    """
    ours, theirs = set(map(id, before)), set(map(id, after))
    gone = [held for held in before if id(held) not in theirs]
    come = [held for held in after if id(held) not in ours]
    both = set(gone) & set(come)
    return [one for one in gone if one not in both], [one for one in come if one not in both]


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A node that is listed, even if it is being deleted; `created` is its creationTimestamp."""

    created: str
    name: str


@dataclass(frozen=True, slots=True)
class PoolSeen:
    """An existing pool; `node` is empty for pools that all nodes share.

    `leaving`: it is deleted already, and somebody's finalizer still keeps it.
    `taken`: sorted offsets that cannot be given any more, by its own entries or, where pools
    overlap, by those of others. `want`: its node asks for more addresses. `idle`: since when it has
    been seen empty, in seconds since the epoch; None when it is not, or nobody looked.
    """

    name: str
    node: str
    network: str
    base: int
    prefix: int
    closed: bool
    empty: bool
    leaving: bool = False
    taken: tuple[int, ...] = ()
    want: bool = False
    idle: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """All that a plan depends on, besides the time.

    Addresses are integers; `elsewhere` and `pools` hold only those of the range's IP version.
    `network`: the name that pools of this network carry. `size`: prefix length of new slices.
    `wanted`: whether any NetworkAttachmentDefinition asks for the network. `cooldown`: seconds.
    `nodes`: those that take part. `slice_max`: how many slices with a usable address one may hold.
    `idle_seconds`: how long a slice is empty before it may go back. `capped`: the table cannot
    record more slices.
    `table`: None when there is no table object; then `pools` must come from a live list, because
    the table is rebuilt from it.
    `elsewhere`: what other tables of the address space hold, with the holder's name where the slice
    is active there, else "".
    `shared`: ranges of pools that all nodes share; slices inside them are dealt last, as each of
    their addresses has to be reserved.
    `pools`: all pools of the address space for one node each. `gone`: draining entries whose pool
    was not found by a live read made after the write that set them draining was confirmed.
    """

    network: str
    range: Range
    size: int
    wanted: bool
    cooldown: float
    nodes: tuple[NodeSeen, ...]
    table: tuple[Held, ...] | None
    elsewhere: tuple[Claim, ...] = ()
    pools: tuple[PoolSeen, ...] = ()
    shared: tuple[Interval, ...] = ()
    gone: frozenset[Held] = frozenset()
    slice_max: int = 8
    idle_seconds: float = 300.0
    capped: bool = False


@dataclass(frozen=True, slots=True)
class Create:
    """Create this pool closed, then open it if a live read of the table still gives the slice."""

    node: str
    base: int
    prefix: int


Key = tuple[str, int, int]


def key(one: Held | PoolSeen | Create) -> Key:
    """Return what entries and pools are matched by."""
    return one.node, one.base, one.prefix


@dataclass(frozen=True, slots=True)
class Open:
    """Open this closed pool if a live read of the table still gives its slice to its node."""

    pool: PoolSeen


@dataclass(frozen=True, slots=True)
class Close:
    """Set the closed mark, so that no further address can be added, and drop `want`."""

    pool: PoolSeen


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete this closed, empty pool, with its uid and resourceVersion as preconditions."""

    pool: PoolSeen


@dataclass(frozen=True, slots=True)
class Confirm:
    """Read this draining slice's pool live; if it is not found, plan again with `held` in gone."""

    held: Held


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer the pool's `want`: with `more`, once the pool of that slice is open, or by `refused`.

    `refused` is the reason, "" with `more`.
    """

    pool: PoolSeen
    more: Held | None
    refused: str = ""


Action = Create | Open | Close | Delete | Confirm | Answer


@dataclass(frozen=True, slots=True)
class Figures:
    """Numbers of slices after the plan; `free` counts slices of the wanted size."""

    active: int
    draining: int
    cooling: int
    free: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What to make so.

    `table`: entries sorted by address, or None when there should be no table object.
    `waiting`: nodes without a slice that has a usable address, in the order in which they will be
    served. `again`: seconds until time alone changes something, or None.
    `disputed`: active slices kept shut because something else claims some of their addresses.
    `stuck`: nodes that run short and get no further slice, with the reason. `spent`: all nodes that
    have no address left and get none.
    """

    table: tuple[Held, ...] | None
    actions: tuple[Action, ...]
    waiting: tuple[str, ...]
    again: float | None
    figures: Figures
    disputed: tuple[Held, ...] = ()
    stuck: Mapping[str, str] = field(default_factory=dict)
    spent: frozenset[str] = frozenset()
