"""ADD for one network: an address out of this node's own pools, in one request where possible.

The steps are those of ARCHITECTURE.md, "The life of an ADD". Everything believed from the hint is
tested by the patch itself, so a wrong belief costs a request and never an address.
"""

from __future__ import annotations

from cni import hints, log
from cni.belief import Belief
from cni.call import Call
from cni.choice import Choice
from cni.errors import CniError, Later
from cni.hints import CLAIMS, CONTAINER, IFNAME, INTENT, PODREF, RESERVATION, UID
from cni.objects import Facts
from whereabouts_fast.ipam import address, pool
from whereabouts_fast.ipam.netconf import Network

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cni.growth import Growth
    from cni.reservations import Reservations

_ROUNDS = 64  # of one turn: each costs at least a request


class Given:
    """An address that the API server has recorded for this attachment.

    `cidr` has the prefix length of the network's range. `took` tells whether this call recorded
    it; `claims` grows when another call is answered with it too.
    """

    __slots__ = ("cidr", "claims", "offset", "pool", "took")

    def __init__(self, one: hints.Pool, offset: int, cidr: str, claims: int, *, took: bool) -> None:
        self.pool = one
        self.offset = offset
        self.cidr = cidr
        self.claims = claims
        self.took = took


class Attach(Belief):
    """One attachment's way to an address of one network; `asked` is the only one that will do."""

    __slots__ = (
        "_again",
        "_asked",
        "_choice",
        "_entry",
        "_growth",
        "_reservations",
        "_sent",
    )

    def __init__(self, call: Call, network: Network, asked: int | None = None) -> None:
        super().__init__(call, network)
        self._asked = asked
        request = call.request
        self._entry = pool.Entry(
            request.container_id,
            request.podref,
            request.ifname,
            request.pod_uid,
            call.node.name if network.slice_size is None else "",  # a slice has its node's name
        )
        # Where the last patch was sent for: it is sent again, and never another.
        self._again: tuple[str, int] | None = None
        self._sent: set[tuple[str, int]] = set()  # what this process has asked for
        self._choice = Choice(network, asked)
        self._growth: Growth | None = None  # once nothing was free
        self._reservations: Reservations | None = None

    def give(self) -> Given:
        """Return an address; raises CniError."""
        return self.take(self._turn)

    def abandon(self) -> None:
        """Take back what was reserved for an address that was not given after all."""
        if self._reservations is None or self._unsure:
            return
        reservations, entry = self._reservations, self._entry

        def turn() -> None:
            # Another call for this attachment may have found it, and recorded the address.
            found = self.hint.find(entry.id, entry.ifname)
            if found is None or found[0].records[found[1]][CLAIMS] == INTENT:
                reservations.drop()

        self.take(turn)

    def _turn(self) -> Given:
        self._facts = None
        if not self._sent:
            self._still_wanted()
        shared = self._network.slice_size is None
        for one in self.hint.pools:
            # Where the network has changed its mode, nothing new comes from what it had before.
            one.closed = one.closed or one.shared != shared
        if not self.hint.known:
            self._learn()
        for _ in range(_ROUNDS):
            given = self._step()
            if given is not None:
                return given
        raise Later(self._conflict("they change faster than they can be read"), 0.1)

    def _step(self) -> Given | None:
        """Do one thing; None when the next step has to begin from what it has changed."""
        entry = self._entry
        found = self.hint.find(entry.id, entry.ifname)
        if found is not None:
            return self._known(*found)
        found = self.hint.find_pod(entry.podref, entry.uid, entry.ifname)
        if found is not None:
            one, offset = found
            if not one.fresh:
                self._read(one)
                return None
            if self._choice.open_to_us(one, offset):
                return self._take_over(one, offset)
        return self._fresh()

    def _known(self, one: hints.Pool, offset: int) -> Given | None:
        """The attachment has an entry: confirm it, whether the pool is open or not."""
        record = one.records[offset]
        if record[CLAIMS] == INTENT:
            # Sent by us in an earlier turn, or by a process that died: was it stored?
            self._again = (one.name, offset)
            if self._not_stored:
                del one.records[offset]
            else:
                self._read(one)
            return None
        if not self._choice.usable(one, offset):
            # The configuration has changed since: this address may not be used any more.
            ops = pool.remove_patch(
                offset, self._entry.id, record[IFNAME], record[UID], one.overlapping
            )
            if self._patch(one, ops, lambda: self._holds(one, offset, record)) is not None:
                del one.records[offset]
                if record[RESERVATION] or self._reserves(one):
                    from cni import reservations

                    reservations.release(self._call, one, offset, record)
            return None
        bare = not record[IFNAME]
        if bare or not one.fresh:
            entry = pool.Entry(record[CONTAINER], record[PODREF], record[IFNAME])
            ops = pool.confirm_patch(offset, entry)
            if bare:
                # Named from now on, so that the container's next interface is not taken for it.
                path = f"/spec/allocations/{offset}/ifname"
                ops.append({"op": "add", "path": path, "value": self._entry.ifname})
            reply = self._patch(one, ops, lambda: self._holds(one, offset, record))
            if reply is None:
                return None
            self._check_uid(one, reply)
        # What stands after an answer that was lost is as much taken by us as any.
        return self._written(one, offset, took=(one.name, offset) in self._sent)

    def _take_over(self, one: hints.Pool, offset: int) -> Given | None:
        """Put our container id in the place of an earlier one of the same pod and interface."""
        old = list(one.records[offset])
        added = pool.add_patch(offset, self._entry)
        # The tests of a removal and of an open pool, then the entry itself.
        removed = pool.remove_patch(offset, old[CONTAINER], old[IFNAME], old[UID], one.overlapping)
        ops = [added[0], *removed[:-1], added[-1]]
        self._still_wanted()
        if self._reserves(one):
            whose = self._reserved().inherit(one, offset, old)
            if whose:
                self._choice.lost(one, offset, whose)
                return None
        self._sent.add((one.name, offset))
        if self._patch(one, ops, lambda: self._holds(one, offset, old)) is None:
            return None
        return self._written(one, offset, took=True)

    def _fresh(self) -> Given | None:
        """Choose a free offset and record it."""
        again = self._repeated()
        stale = [one for one in self.hint.pools if one.shared and not (one.fresh or one.closed)]
        if stale and again is None:
            # What other nodes have taken meanwhile, no hint of this one can know.
            self._read(stale[0])
            return None
        chosen = again or self._choice.free(self.hint.pools, self._conflicts)
        if chosen is None:
            if self._growth is not None and self._growth.brought(self.hint):
                return None
            if self._facts is None:
                self._learn()
                return None
            return self._none_free(self._facts)
        one, offset = chosen
        self._still_wanted()
        entry = self._entry
        origin = self._call.request.name
        one.records[offset] = [entry.id, entry.ifname, entry.podref, entry.uid, INTENT, origin, ""]
        self._again, self._not_stored = (one.name, offset), False
        self._sent.add((one.name, offset))
        self._note_config()
        self.save()
        ops = pool.add_patch(offset, entry, one.overlapping)
        try:
            if self._reserves(one):
                whose = self._reserved().take(one, offset, again=again is not None)
                if whose:
                    del one.records[offset]
                    self._again = None
                    self._choice.lost(one, offset, whose)
                    return None
            reply = self._patch(one, ops, lambda: not one.closed and offset not in one.records)
        except CniError:
            one.records.pop(offset, None)
            self.save()
            raise
        if reply is None:
            # An earlier patch of ours may have landed: then the next step finds its entry.
            landed = one.records.get(offset, ())[:2] == [entry.id, entry.ifname]
            if self._reservations is not None and not landed:
                self._reservations.drop()
            return None
        given = self._written(one, offset, took=True)
        self._check_uid(one, reply)
        return given

    def _repeated(self) -> tuple[hints.Pool, int] | None:
        if self._again is not None:
            one = self.hint.pool_named(self._again[0])
            if one is not None and not one.closed and self._again[1] not in one.records:
                return one, self._again[1]
            self._again = None
        return None

    def _none_free(self, facts: Facts) -> Given | None:
        """Take over what an older pod of the same name left, or see to more addresses."""
        self._again = None
        old = self._left_behind()
        waited = self.waited() or (self._growth is not None and self._growth.refused != "")
        if old is not None and waited:
            return self._take_over(*old)
        facts.reserved = self._choice.reserved(self.hint.pools)
        if self._growth is None:
            from cni.growth import Growth

            self._growth = Growth(self._call, self._network, self._asked)
        if facts.active:
            self.save()
        self._growth.seek(self.hint, facts, left=old is not None, waited=waited)
        self._facts = None
        return None

    def _reserves(self, one: hints.Pool) -> bool:
        always = self._call.conf.overlap_reservations == "always"
        return one.overlapping or (always and self._network.overlap_check)

    def _reserved(self) -> Reservations:
        if self._reservations is None:
            from cni.reservations import Reservations

            self._reservations = Reservations(self._call, self._entry)
        return self._reservations

    def _left_behind(self) -> tuple[hints.Pool, int] | None:
        """Return an entry of the same pod name and interface; that pod is gone, or would be us."""
        entry = self._entry
        for one in self.hint.pools:
            if entry.podref == "/":
                continue
            for offset, record in one.records.items():
                same = (record[PODREF], record[IFNAME]) == (entry.podref, entry.ifname)
                if same and self._choice.open_to_us(one, offset):
                    return one, offset
        return None

    def _written(self, one: hints.Pool, offset: int, *, took: bool) -> Given:
        entry = self._entry
        claims = 1 if took else max(1, one.records[offset][CLAIMS]) + 1
        origin = self._call.request.name
        reservation = one.records[offset][RESERVATION] if offset in one.records else ""
        if self._reservations is not None:
            reservation = self._reservations.used(one, offset) or reservation
            self._reservations.drop()
        one.records[offset] = [
            *(entry.id, entry.ifname, entry.podref, entry.uid, claims, origin, reservation)
        ]
        one.foreign.discard(offset)
        one.freed.pop(offset, None)
        self._note_config()
        self.save()
        version, base, _ = address.parse_cidr(one.cidr)
        text = address.text(version, base + offset)
        return Given(one, offset, f"{text}/{self._network.range.prefix}", claims, took=took)

    def _note_config(self) -> None:
        call = self._call
        name = call.request.name
        if name in self.hint.configs:
            return
        self.hint.configs.append(name)
        # Here, because this is once per configuration and not once per call.
        for keys, what in ((call.conf.ignored, "without effect"), (call.conf.unknown, "unknown")):
            if keys:
                log.info(call.conf, f"configuration {name}: keys {what} here: {', '.join(keys)}")
