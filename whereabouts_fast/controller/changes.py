"""What a write of a slice table changed, for events and counters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from whereabouts_fast.ipam.holdings import ACTIVE, Held, Key, difference, key

DEALT, GROWN, RETURNED, REBUILT = "dealt", "grown", "returned", "rebuilt"


@dataclass(frozen=True, slots=True)
class Changes:
    """Slices by CIDR text, each with its node; `assigned` by reason."""

    assigned: dict[str, dict[str, str]] = field(default_factory=dict)
    drained: dict[str, str] = field(default_factory=dict)
    reclaimed: dict[str, str] = field(default_factory=dict)

    @property
    def all_assigned(self) -> dict[str, str]:
        """Every assigned slice, whatever the reason."""
        return {cidr: node for slices in self.assigned.values() for cidr, node in slices.items()}


def between(
    before: Sequence[Held] | None,
    after: Sequence[Held],
    pools: Callable[[Held], bool],
    cidr: Callable[[Held], str],
) -> Changes:
    """Compare two tables (`before` None: there was none); `pools` says whether a pool exists."""
    rebuilding = before is None
    gone, come = difference(before or (), after)
    old: dict[Key, Held] = {key(held): held for held in gone}
    nodes = {held.node for held in come}
    served = {h.node for h in before or () if h.node in nodes and h.state == ACTIVE}
    changes = Changes()
    for held in come:
        known = old.pop(key(held), None)
        if known is not None and known.state == held.state:
            continue
        if held.state == ACTIVE:
            reason = GROWN if held.node in served else DEALT
            if known is not None:
                reason = RETURNED
            if rebuilding and pools(held):
                reason = REBUILT
            changes.assigned.setdefault(reason, {})[cidr(held)] = held.node
        elif known is None or known.state == ACTIVE:
            changes.drained[cidr(held)] = held.node
    changes.reclaimed.update((cidr(held), held.node) for held in old.values())
    return changes
