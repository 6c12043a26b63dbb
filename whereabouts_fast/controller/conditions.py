"""The conditions of a NodeSlicePool: their types, their reasons, and when they are true.

docs/reference/events.md is made from the tables here. A network without slices has no NodeSlicePool
and so no conditions; events on its NetworkAttachmentDefinitions and metrics tell of it.
"""

from __future__ import annotations

from collections.abc import Collection

from whereabouts_fast.controller.units import Unit
from whereabouts_fast.ipam.findings import Finding, summary
from whereabouts_fast.ipam.holdings import Plan
from whereabouts_fast.resources.tables import Condition, TableView

READY = "Ready"
EXHAUSTED = "Exhausted"
CONSISTENT = "Consistent"
OVERLAPPING = "Overlapping"

# Type -> what True means, and each reason with its status and meaning.
MEANINGS = {
    READY: (
        "every node has its slice",
        {
            "AllNodesServed": ("True", "no node waits"),
            "NodesWaiting": ("False", "nodes wait for a slice"),
            "NetworkGone": ("False", "no NetworkAttachmentDefinition asks for the network"),
            "Unreadable": ("False", "the table cannot be read and is left alone"),
        },
    ),
    EXHAUSTED: (
        "no slice is free and nodes wait",
        {
            "NoSliceLeft": ("True", "nodes wait for a slice"),
            "NoNodeWaits": ("False", "nobody lacks one"),
        },
    ),
    CONSISTENT: (
        "table, pools and reservations agree, and every entry could be read",
        {
            "NothingFound": ("True", "all is as it should be"),
            "Disputed": ("False", "something else claims addresses of slices, which stay closed"),
            "Inconsistent": ("False", "objects have disagreed for a while; see the findings below"),
        },
    ),
    OVERLAPPING: (
        "something in the address space overlaps the network; absent until that was so once",
        {
            "RangesOverlap": ("True", "each address is reserved before it is given"),
            "NothingOverlaps": ("False", "the overlap ended"),
        },
    ),
}
_SHOWN = 5


def conditions(
    unit: Unit, plan: Plan, waiting: tuple[str, ...], found: Collection[Finding] = ()
) -> list[Condition]:
    """Return the conditions that a plan amounts to; `found` is what lastingly does not fit."""
    if unit.wanted is None:
        text = "no NetworkAttachmentDefinition asks for this network"
        ready = _condition(READY, "NetworkGone", text)
    elif waiting:
        ready = _condition(READY, "NodesWaiting", waiting_text(waiting))
    else:
        ready = _condition(READY, "AllNodesServed", "every node has a slice")
    if waiting:
        exhausted = _condition(EXHAUSTED, "NoSliceLeft", waiting_text(waiting))
    else:
        exhausted = _condition(EXHAUSTED, "NoNodeWaits")
    return [ready, exhausted, _consistent(unit, plan, found), *_overlapping(unit)]


def unreadable(problem: str) -> list[Condition]:
    """Return the conditions of a table that cannot be read."""
    remedy = "correct it, or delete it to have it rebuilt from the pools"
    return [
        _condition(READY, "Unreadable", problem),
        _condition(CONSISTENT, "Inconsistent", f"{problem}; {remedy}"),
    ]


def _consistent(unit: Unit, plan: Plan, found: Collection[Finding]) -> Condition:
    texts = []
    if plan.disputed:
        cidrs = ", ".join(unit.cidr(h.base, h.prefix) for h in plan.disputed[:_SHOWN])
        texts.append(
            f"something else claims addresses of {len(plan.disputed)} slices, which stay closed:"
            f" {cidrs}"
        )
    if found:
        texts.append(summary(found))
    if not texts:
        return _condition(CONSISTENT, "NothingFound")
    reason = "Disputed" if plan.disputed else "Inconsistent"
    return _condition(CONSISTENT, reason, ". ".join(texts))


def _condition(type_: str, reason: str, message: str = "") -> Condition:
    _, reasons = MEANINGS[type_]
    return Condition(type_, reasons[reason][0], reason, message)


def overlaps(table: TableView | None) -> bool:
    """Return whether a table says that something overlaps its network.

    Written before anything that does is opened, so that whoever reads the table before he opens a
    slice's pool cannot miss it.
    """
    found = None if table is None else table.condition(OVERLAPPING)
    return found is not None and found.status == "True"


def _overlapping(unit: Unit) -> list[Condition]:
    if unit.overlapping:
        text = "each address in a pool that overlaps another is reserved before it is given"
        return [_condition(OVERLAPPING, "RangesOverlap", text)]
    if unit.table is not None and unit.table.condition(OVERLAPPING) is not None:
        return [_condition(OVERLAPPING, "NothingOverlaps")]
    return []


def waiting_text(waiting: tuple[str, ...]) -> str:
    """Say how many nodes wait, and who is next."""
    verb = "node waits" if len(waiting) == 1 else "nodes wait"
    more = ", ..." if len(waiting) > _SHOWN else ""
    return f"{len(waiting)} {verb} for a slice: {', '.join(waiting[:_SHOWN])}{more}"
