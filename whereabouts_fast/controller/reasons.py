"""The reasons of events: all there are, with their types and meanings.

docs/reference/events.md is made from this.
"""

from __future__ import annotations

from enum import StrEnum

NORMAL = "Normal"
WARNING = "Warning"


class Reason(StrEnum):
    """Why an event is told; people and alerts select events by it, so names never change."""

    type: str
    about: str
    told_when: str

    def __new__(cls, value: str, type_: str, about: str, told_when: str) -> Reason:
        """Make a member: `type_` is NORMAL or WARNING, `about` the kinds that it is told of."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.type = type_
        member.about = about
        member.told_when = told_when
        return member

    INVALID = (
        "InvalidNetworkConfig",
        WARNING,
        "NetworkAttachmentDefinition",
        "it cannot be right, or has keys without effect; names key and value",
    )
    CONFLICTING = (
        "ConflictingNetworkConfig",
        WARNING,
        "NetworkAttachmentDefinition",
        "a younger one disagrees with the oldest of its network",
    )
    OVERLAPPING = (
        "OverlappingRanges",
        WARNING,
        "NetworkAttachmentDefinition",
        "a younger network overlaps another of its address space; names both. It is not served"
        " when both are in slice mode under one name, nor while its slices are held under the"
        " `network_name` it had before",
    )
    EXHAUSTED = (
        "NodeSlicesExhausted",
        WARNING,
        "NetworkAttachmentDefinition",
        "nodes wait for a slice; names how many",
    )
    SPENT = (
        "AddressesExhausted",
        WARNING,
        "NetworkAttachmentDefinition; in classic mode IPPool",
        "a pod found no free address on a node that has slices and gets no further one; names the"
        " node and why. In classic mode: all addresses are given",
    )
    ASSIGNED = ("NodeSliceAssigned", NORMAL, "NodeSlicePool", "nodes got slices")
    RECLAIMED = ("NodeSliceReclaimed", NORMAL, "NodeSlicePool", "slices are free again")
    RELEASED = (
        "LeakedAddressReleased",
        NORMAL,
        "IPPool",
        "addresses were released whose pods are gone; names them, the pods and why",
    )
    INCONSISTENT = (
        "Inconsistent",
        WARNING,
        "NodeSlicePool, IPPool or OverlappingRangeIPReservation",
        "it and other objects have disagreed for a while; names what, and what to do",
    )
    CONSISTENT = (
        "Consistent",
        NORMAL,
        "the same",
        "they agree again",
    )
    UNREADABLE = (
        "UnreadablePool",
        WARNING,
        "IPPool",
        "it cannot be read and is left alone",
    )
