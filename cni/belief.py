"""What an ADD believes of one network's pools: tested by each patch, corrected by reading."""

from __future__ import annotations

from cni import errors, hints, turns
from cni.apiserver import Reply, UnknownOutcome
from cni.call import Call
from cni.errors import CniError, Later
from cni.hints import CLAIMS
from cni.objects import Facts
from whereabouts_fast.ipam.netconf import Network

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_REFUSALS = 3  # patches refused although everything that they test holds


class Belief(turns.Turns):
    """Turns that believe the hint until a patch is refused, and then what was read."""

    __slots__ = ("_conflicts", "_facts", "_network", "_not_stored", "_refusals", "_unsure")

    def __init__(self, call: Call, network: Network) -> None:
        super().__init__(call, network.identity)
        self._network = network
        self._facts: Facts | None = None  # what this turn has read of the table
        self._not_stored = False  # the last patch is known to have changed nothing
        self._unsure = False  # a patch was sent, and nobody knows what became of it
        self._conflicts = 0
        self._refusals = 0

    def _patch(
        self, one: hints.Pool, ops: list[dict[str, Any]], holds: Callable[[], bool]
    ) -> Reply | None:
        """Send a patch; None when it was refused and the hint has been corrected.

        `holds` tells, after the pool was read again, whether everything that it tests is true.
        """
        self._not_stored = False
        try:
            reply = self._call.objects.patch_pool(one.name, ops)
        except UnknownOutcome as unknown:
            self._unsure = True
            raise Later(unknown.failure, unknown.delay) from None
        except Later:
            self._not_stored = True
            raise
        if reply.status == 200:
            return reply
        if reply.status == 404:
            self._learn()
            return None
        if reply.status == 409:
            self._not_stored = True
            raise Later(self._conflict(reply.message), 0.1 * turns.jitter())
        self._conflicts += 1
        if self._read(one) and holds():
            self._refusals += 1
            if self._refusals >= _REFUSALS:
                from cni import shortage

                raise shortage.refused(one.name, reply.message)
        return None

    def _read(self, one: hints.Pool) -> bool:
        """Bring a pool up to date; one that is gone means that the table has changed."""
        if self._call.objects.read_pool(one):
            return True
        self._learn()
        return False

    def _learn(self) -> None:
        self._facts = self._call.objects.learn(self._network, self.hint)
        self.hint.known = self._facts.table != ""

    def _check_uid(self, one: hints.Pool, reply: Reply) -> None:
        """Discard the view of a pool that was deleted and created again since it was read."""
        if one.uid and reply.uid != one.uid:
            self.hint.known = False
            self.save()

    @staticmethod
    def _holds(one: hints.Pool, offset: int, record: hints.Record) -> bool:
        return one.records.get(offset, ())[:CLAIMS] == record[:CLAIMS]

    def _still_wanted(self) -> None:
        why = self._call.given_up()
        if why:
            raise turns.gave_up(why)

    def _conflict(self, why: str) -> CniError:
        return CniError(
            errors.TRY_AGAIN,
            f'others write the pools of network "{self._network.name}" on node '
            f'"{self._call.node.name}" at the same time: {why}',
            "is another IPAM plugin at work on this node?",
        )
