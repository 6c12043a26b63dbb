"""What STATUS asks the API server when the hint does not do: one small GET, more only in doubt."""

from __future__ import annotations

from cni import errors, shortage, turns
from cni.call import Call
from cni.errors import CniError
from cni.hints import CLAIMS
from whereabouts_fast.ipam.netconf import Network

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_PLUGIN_FAULTS = (errors.IO_FAILURE, errors.TRY_AGAIN, errors.NO_FREE_ADDRESS, errors.REFUSED)


def ask(start: Callable[[], Call], networks: tuple[Network, ...], *, fresh: bool) -> None:
    """Return when every network can give; raises CniError 50 or 51.

    fresh: the API server has answered just now, so that only doubtful networks are asked about.
    """
    try:
        call = start()
        for network in networks:
            fresh = Probe(call, network).can_give(fresh=fresh)
    except CniError as error:
        if error.code not in _PLUGIN_FAULTS:
            raise
        raise CniError(errors.NOT_AVAILABLE, error.msg, error.details) from None


class Probe(turns.Turns):
    """One network's ability to give this node addresses."""

    __slots__ = ("_network",)

    def __init__(self, call: Call, network: Network) -> None:
        super().__init__(call, network.identity)
        self._network = network

    def can_give(self, *, fresh: bool) -> bool:
        """Return True when an ADD would be served; raises CniError."""
        return self.take(lambda: self._turn(fresh=fresh))

    def _turn(self, *, fresh: bool) -> bool:
        if self.hint.can_give(self._network.range):
            if fresh:
                return True
            one = next(one for one in self.hint.pools if not one.closed)
            if self._call.objects.glance(one):
                self.save()
                return True
        return self._look()

    def _look(self) -> bool:
        """Read table and pools, for the hint is missing, wrong, or says that nothing is free."""
        hint = self.hint
        live = {
            one.name: one.cidr
            for one in hint.pools
            if any(record[CLAIMS] for record in one.records.values())
        }
        facts = self._call.objects.learn(self._network, hint)
        hint.known = facts.table != ""
        self.save()
        lost = sorted(set(live) - {one.name for one in hint.pools})
        if lost:
            raise self._lost(", ".join(live[name] for name in lost))
        if not hint.can_give(self._network.range):
            raise shortage.explain(self._call, self._network, facts, hint)
        return True

    def _lost(self, slices: str) -> CniError:
        return CniError(
            errors.PODS_AT_RISK,
            f"{self._call.node.identities} has lost slice {slices} of network "
            f'"{self._network.name}", from which it gave addresses: they may be given to others',
            "delete this node's pods that use the network, so that they get new addresses",
        )
