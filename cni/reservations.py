"""Reservations: addresses of pools that overlap are kept apart by one object for each address.

An ADD makes the reservation before it writes its entry, and a DEL removes it after its entry, so
that a process that dies in between leaves a reservation too many and never an address twice.
Only for pools that need it, so this is loaded only then.
"""

from __future__ import annotations

from cni.apiserver import UnknownOutcome
from cni.call import Call
from cni.errors import CniError, Later
from cni.hints import CONTAINER, IFNAME, PODREF, RESERVATION, Pool
from whereabouts_fast.ipam import address, naming, pool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cni.hints import Record


class Reservations:
    """What one ADD has reserved and not yet used: (pool, offset) -> (name, uid)."""

    __slots__ = ("_call", "_entry", "_held")

    def __init__(self, call: Call, entry: pool.Entry) -> None:
        self._call = call
        self._entry = entry
        self._held: dict[tuple[str, int], tuple[str, str]] = {}

    def take(self, one: Pool, offset: int, *, again: bool) -> str:
        """Reserve an address; return "", or whose it is when another has it.

        again: this attachment may have reserved it before, in a call whose end nobody saw.
        """
        if (one.name, offset) in self._held:
            return ""
        name = name_of(one, offset)
        if name in self._call.reserved:
            return self._entry.podref  # for another range of the same attachment
        objects = self._call.objects
        try:
            uid = objects.reserve(name, self._entry)
        except UnknownOutcome as unknown:
            raise Later(unknown.failure, unknown.delay) from None
        if not uid:
            found = objects.read_reservation(name) if again else None
            if found is None or (found[1].id, found[1].ifname) != _named(self._entry):
                return found[1].podref if found else "another network's pod"
            uid = found[0]
        self._hold(one, offset, name, uid)
        return ""

    def inherit(self, one: Pool, offset: int, old: Record) -> str:
        """Put our container in the place of an earlier one of the same pod; else as take()."""
        name = name_of(one, offset)
        entry = self._entry
        ops: list[dict[str, object]] = [
            {"op": "test", "path": "/spec/podref", "value": old[PODREF]},
            {"op": "add", "path": "/spec/containerid", "value": entry.id},
            {"op": "add", "path": "/spec/ifname", "value": entry.ifname},
        ]
        try:
            reply = self._call.objects.patch_reservation(name, ops)
        except UnknownOutcome as unknown:
            raise Later(unknown.failure, unknown.delay) from None
        if reply.status == 404:
            return self.take(one, offset, again=False)
        if reply.status != 200:
            return "another pod"
        self._hold(one, offset, name, reply.uid)
        return ""

    def used(self, one: Pool, offset: int) -> str:
        """Return the uid of an address's reservation, which the entry now answers for."""
        name, uid = self._held.pop((one.name, offset), ("", ""))
        self._call.reserved.add(name)
        return uid

    def drop(self) -> None:
        """Take back what is not used; what cannot be taken back is a leak for the controller."""
        for key, (name, uid) in list(self._held.items()):
            try:
                self._call.objects.delete_reservation(name, uid)
            except (UnknownOutcome, Later, CniError):
                continue
            del self._held[key]

    def _hold(self, one: Pool, offset: int, name: str, uid: str) -> None:
        self._held[one.name, offset] = name, uid


def _named(entry: pool.Entry) -> tuple[str, str]:
    return entry.id, entry.ifname


def name_of(one: Pool, offset: int) -> str:
    """Return the name of an address's reservation."""
    version, base, _ = address.parse_cidr(one.cidr)
    return naming.reservation(address.text(version, base + offset), one.space)


def release(call: Call, one: Pool, offset: int, record: Record) -> None:
    """Remove the reservation of an entry that is gone, and nobody else's."""
    name = name_of(one, offset)
    objects = call.objects
    try:
        if record[RESERVATION]:
            objects.delete_reservation(name, record[RESERVATION])
            return
        found = objects.read_reservation(name)
        if found is not None and _is_of(found[1], record):
            objects.delete_reservation(name, found[0])
    except UnknownOutcome as unknown:
        raise Later(unknown.failure, unknown.delay) from None


def _is_of(holder: pool.Entry, record: Record) -> bool:
    # Old versions of whereabouts recorded the pod alone.
    return (
        holder.podref == record[PODREF]
        and holder.id in ("", record[CONTAINER])
        and holder.ifname in ("", record[IFNAME])
    )
