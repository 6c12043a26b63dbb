"""DEL for one network: free what the attachment holds, and nothing else.

Each patch tests container id and interface, and the pod's uid where it is known, in the write that
frees. Nothing found anywhere is success.
"""

from __future__ import annotations

from cni import errors, hints, turns
from cni.apiserver import UnknownOutcome
from cni.call import Call
from cni.errors import CniError, Later
from cni.hints import CONTAINER, IFNAME, RESERVATION, UID
from whereabouts_fast.ipam import pool
from whereabouts_fast.ipam.netconf import Network

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cni.attach import Given
    from cni.hints import Record

_REFUSALS = 3


class Detach(turns.Turns):
    """One attachment's address of one network, given back."""

    __slots__ = ("_always", "_container_id", "_ifname", "_refusals", "_unsure")

    def __init__(
        self, call: Call, identity: tuple[str, str], attachment: tuple[str, str] | None = None
    ) -> None:
        """`attachment` is (container id, interface), by default the one that the call is for."""
        super().__init__(call, identity)
        asked = (call.request.container_id, call.request.ifname)
        self._container_id, self._ifname = attachment or asked
        self._always = call.conf.overlap_reservations == "always"
        self._refusals = 0
        self._unsure = False  # a patch was sent, and nobody knows what became of it

    def by_hint(self) -> bool:
        """Free what the hint knows; False when it knows nothing of this attachment."""
        return self.take(lambda: self._free(self.hint))

    def by_table(self, network: Network) -> bool:
        """Look into every pool that the table gives this node; False when there is no table.

        In classic mode the network's pool stands for both.
        """
        return self.take(lambda: self._search(network))

    def give_back(self, given: Given) -> None:
        """Free what an ADD took, unless a later ADD was answered with the same address."""
        one, offset = given.pool, given.offset

        def turn() -> None:
            known = self.hint.pool_named(one.name)
            record = known.records.get(offset) if known else None
            if record is not None and record[hints.CLAIMS] > given.claims:
                return
            if not self._free(self.hint) and offset in one.records:
                self._remove(one, offset, one.records[offset])

        self.take(turn)

    def free_at(self, one: hints.Pool, offset: int, record: Record) -> None:
        """Free an entry that was read in a pool."""
        self.take(lambda: self._remove(self.hint.pool_named(one.name) or one, offset, record))

    def _search(self, network: Network) -> bool:
        facts = self._call.objects.learn(network, self.hint)
        self.hint.known = facts.table != ""
        if facts.table and not self._free(self.hint):
            self.save()
        return self.hint.known

    def _free(self, hint: hints.Hint) -> bool:
        found = hint.find(self._container_id, self._ifname)
        if found is None:
            return False
        one, offset = found
        self._remove(one, offset, one.records[offset])
        return True

    def _remove(self, one: hints.Pool, offset: int, record: Record) -> None:
        """Free one offset; returns when nothing of this attachment is left in the pool."""
        objects = self._call.objects
        status = 0
        # Not as assumed: the entry is gone, or it is described differently. Look, then try again.
        look = self._unsure
        while True:
            if look:
                if not objects.read_pool(one):
                    break
                current = pool.find(one.entries(), self._container_id, record[IFNAME])
                if current is None:
                    break
                offset, record = current, one.records[current]
            ops = pool.remove_patch(
                offset, self._container_id, record[IFNAME], record[UID], one.overlapping
            )
            try:
                reply = objects.patch_pool(one.name, ops)
            except UnknownOutcome as unknown:
                self._unsure = True
                raise Later(unknown.failure, unknown.delay) from None
            status = reply.status
            if status == 409:
                raise Later(self._conflict(reply.message), 0.1 * turns.jitter())
            if status != 422:
                break
            self._refusals += look
            if self._refusals >= _REFUSALS:
                from cni import shortage

                raise shortage.refused(one.name, reply.message)
            look = True
        if record[RESERVATION] or one.overlapping or self._always:
            # Before the hint forgets: a DEL that fails here finds the way once more.
            from cni import reservations

            reservations.release(self._call, one, offset, record)
        known = one.records.get(offset)
        if status == 404:
            self.hint.pools = [other for other in self.hint.pools if other is not one]
        elif status == 200 or (known is not None and known[CONTAINER] == self._container_id):
            one.records.pop(offset, None)
            one.freed[offset] = hints.now()
        self.save()

    def _conflict(self, why: str) -> CniError:
        return CniError(
            errors.TRY_AGAIN,
            f"the pool of this attachment is written by others at the same time: {why}",
            "the runtime calls again",
        )


class Search(Detach):
    """The DEL that neither hint nor table can place: the only one that lists.

    Its hint is a scratch one that is never written: what it finds belongs to any network.
    """

    __slots__ = ()

    def __init__(self, call: Call) -> None:
        super().__init__(call, ("", ""))

    def by_label(self) -> None:
        """List this node's pools once and free what the attachment holds in any of them."""
        self.take(self._all)

    def _all(self) -> None:
        self.hint.pools = self._call.objects.list_pools(self.hint)
        while self._free(self.hint):
            pass
