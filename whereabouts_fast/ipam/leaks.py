"""Leaks: allocations x pods x time -> which addresses may be released, and why.

Pure. What says that a pod lives is always evidence for keeping; what is missing is never evidence
of anything before the pod was read live, which is the business of whoever asks here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from whereabouts_fast.ipam.overlap import Holder

GONE = "gone"
FINISHED = "finished"
RECREATED = "recreated"
SUPERSEDED = "superseded"
REASONS = (GONE, FINISHED, RECREATED, SUPERSEDED)


class Allocation(NamedTuple):
    """One entry of a pool: where it lies, and who holds it; absent texts are "".

    A tuple, because there is one for each address of the cluster.
    """

    pool: str
    offset: int
    id: str
    podref: str
    ifname: str = ""
    uid: str = ""
    node: str = ""

    @property
    def holder(self) -> Holder:
        """Whose the address is, as a reservation says it."""
        return Holder(self.podref, self.id, self.ifname)


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod that exists, as far as its addresses depend on it.

    `podref` is "namespace/name". `hash` is that of a static pod's configuration, which its kubelet
    takes for the uid of the mirror pod. `addresses` are all that its network-status names, as
    numbers; of any interface. `machine` and `machine_uid` name its VirtualMachineInstance. `node`,
    `created` (seconds since the epoch) and `finished` are known only of pods that were read whole.
    """

    podref: str
    uid: str
    hash: str = ""
    addresses: tuple[int, ...] = ()
    machine: str = ""
    machine_uid: str = ""
    node: str = ""
    created: float | None = None
    finished: bool = False

    def is_called(self, uid: str) -> bool:
        """Return whether an entry's uid is this pod's; old versions recorded none."""
        return not uid or uid in (self.uid, self.hash)


class Claim(NamedTuple):
    """An allocation with its address, and the range that gives an interface one address.

    `range` is any text that is the same for all pools of one range.
    """

    range: str
    address: int
    entry: Allocation


def reasons(pod: Pod | None, claims: Sequence[Claim]) -> dict[Allocation, str]:
    """Return which of a pod's allocations it does not need, each with the reason.

    `claims` are all allocations with its name; `pod` is None when there is none of that name.
    """
    if pod is None or pod.finished:
        return dict.fromkeys((c.entry for c in claims), GONE if pod is None else FINISHED)
    found = {}
    for claim in claims:
        if claim.address in pod.addresses:
            continue
        if not pod.is_called(claim.entry.uid):
            found[claim.entry] = RECREATED
        elif any(_replaces(other, claim, pod) for other in claims):
            found[claim.entry] = SUPERSEDED
    return found


def _replaces(other: Claim, claim: Claim, pod: Pod) -> bool:
    names = {other.entry.ifname, claim.entry.ifname}
    return (
        other.range == claim.range
        and other.address in pod.addresses
        and pod.is_called(other.entry.uid)
        and (len(names) == 1 or "" in names)
    )


@dataclass(frozen=True, slots=True)
class Graces:
    """How long a pod must have been gone, in seconds.

    `lost`: while its node is gone or not ready, or not known. An address that network-status does
    not name waits as long, for the ADD that took it may be under way.
    """

    usual: float
    lost: float

    def after(self, why: str, node_lost: bool) -> float:
        """Return the seconds between the first live look at a pod and the release."""
        return self.lost if node_lost or why == SUPERSEDED else self.usual


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Why an allocation seems to be a leak; times are monotonic, in seconds.

    `look`: when to look live, next. `confirmed`: when a live look first said so; the grace begins
    then.
    """

    why: str
    look: float
    confirmed: float | None = None

    def still(self, why: str) -> Suspicion:
        """Return the suspicion under what is known now.

        A pod that does not live any more stays so, however that shows.
        """
        if (why == SUPERSEDED) != (self.why == SUPERSEDED):
            return Suspicion(why, self.look)
        return replace(self, why=why)

    def confirm(self, why: str, now: float, grace: float) -> Suspicion:
        """Return the suspicion after a live look; the release is due when `look` is past."""
        one = self.still(why)
        since = now if one.confirmed is None else one.confirmed
        return replace(one, confirmed=since, look=since + grace)

    def at(self, look: float) -> Suspicion:
        """Return the suspicion with another time to look next."""
        return replace(self, look=look)


def by_podref(entries: Iterable[Allocation]) -> dict[str, list[Allocation]]:
    """Group allocations by the pod they name; those that name none are nobody's to judge."""
    found: dict[str, list[Allocation]] = {}
    for entry in entries:
        if is_podref(entry.podref):
            found.setdefault(entry.podref, []).append(entry)
    return found


def is_podref(text: str) -> bool:
    """Return whether a text is "namespace/name"."""
    namespace, slash, name = text.partition("/")
    return bool(namespace and slash and name) and "/" not in name
