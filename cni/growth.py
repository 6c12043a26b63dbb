"""What an ADD does where its pools have nothing free: ask for more, and wait for the answer.

The node asks by the annotation `want` on one of its own open pools. The controller answers in the
same place: in the write that removes `want` it names a pool with room (`more`), or says why there
is none (`refused`). Rare, so this is loaded only then.
"""

from __future__ import annotations

from cni import errors, hints, shortage, turns
from cni.apiserver import UnknownOutcome
from cni.call import Call
from cni.errors import CniError, Later
from cni.objects import Facts
from whereabouts_fast.ipam import naming
from whereabouts_fast.ipam.netconf import Network

_REFUSALS = 3
_ANSWERS = (naming.ANNOTATION_MORE, naming.ANNOTATION_REFUSED)
_NOTES = "/metadata/annotations"


class Growth:
    """One attachment's way to addresses that its node does not have yet.

    `refused` is the controller's reason for giving no more, "" while it has not said so.
    """

    __slots__ = ("_asked", "_call", "_more", "_network", "_refusals", "refused")

    def __init__(self, call: Call, network: Network, asked: int | None) -> None:
        self._call = call
        self._network = network
        self._asked = asked
        self._more = ""  # a pool that the controller has named and that was not looked at yet
        self.refused = ""
        self._refusals = 0

    def seek(self, hint: hints.Hint, facts: Facts, *, left: bool, waited: bool) -> bool:
        """Have more addresses made; True when it was done, False when the table has changed.

        Raises Later to wait for the controller, CniError when there is nothing to wait for.
        `left`: an older pod of the same name left an address, which may be had after the wait.
        """
        conf = self._call.conf
        shared = self._network.slice_size is None
        if shared and not facts.table and (conf.standalone or waited):
            self._create()
            if conf.standalone:
                return False
        failure = shortage.explain(self._call, self._network, facts, hint, self._asked)
        full = failure.code == errors.NO_FREE_ADDRESS
        if full and self.refused:
            raise _because(failure, f"the controller gives no more: {self.refused}")
        if full and facts.active and not (shared or conf.standalone):
            # Not one that is draining: it may be closed at any moment.
            one = next(known for known in hint.pools if known.cidr in facts.active)
            return self._want(one, failure, waited=waited)
        if left or failure.code == errors.TRY_AGAIN:
            raise Later(failure)
        raise failure

    def brought(self, hint: hints.Hint) -> bool:
        """Add to the hint the pool that the controller has named; False when there is none."""
        name, self._more = self._more, ""
        known = hint.pool_named(name)
        objects = self._call.objects
        if not name or (known is not None and known.fresh):
            return False
        if known is not None:
            return objects.read_pool(known)
        one = objects.read_own(name, self._network, hint)
        if one is not None:
            hint.pools.append(one)
        return one is not None

    def answered(self, notes: dict[str, object]) -> None:
        """Take the controller's answer from the annotations of a pool without `want`."""
        more, refused = (notes.get(key) for key in _ANSWERS)
        self._more = str(more or "")
        self.refused = "" if more else str(refused or "")

    def _create(self) -> None:
        """Create the pool of a network that no controller has seen.

        So it is with configurations that lie on nodes alone. The controller has its time first,
        and opens what the plugin creates; without one the pool needs nobody.
        """
        try:
            self._call.objects.create_pool(self._network, standalone=self._call.conf.standalone)
        except UnknownOutcome as unknown:
            raise Later(unknown.failure, unknown.delay) from None

    def _want(self, one: hints.Pool, failure: CniError, *, waited: bool) -> bool:
        """Ask on this pool, unless another call of the node has; then wait."""
        if naming.ANNOTATION_WANT not in one.notes and not self._mark(one):
            return False
        limit = self._call.conf.wait_seconds
        unanswered = _because(
            failure, f"more were asked for, and the controller has not answered within {limit:g} s"
        )
        if waited:
            raise unanswered
        raise Wanted(self, self._call, one, unanswered)

    def _mark(self, one: hints.Pool) -> bool:
        """Set `want` and remove what was answered before; False when the pool has changed."""
        request = self._call.request
        value = f"{request.podref}/{request.ifname}"
        notes = one.notes
        ops: list[dict[str, object]] = [{"op": "test", "path": "/spec/closed", "value": None}]
        if notes:
            ops.append({"op": "add", "path": _path(naming.ANNOTATION_WANT), "value": value})
            ops += [{"op": "remove", "path": _path(key)} for key in _ANSWERS if key in notes]
        else:
            ops.append({"op": "test", "path": _NOTES, "value": None})
            ops.append({"op": "add", "path": _NOTES, "value": {naming.ANNOTATION_WANT: value}})
        try:
            reply = self._call.objects.patch_pool(one.name, ops)
        except UnknownOutcome as unknown:
            raise Later(unknown.failure, unknown.delay) from None
        if reply.status == 409:
            raise Later(
                CniError(
                    errors.TRY_AGAIN,
                    f"pool {one.name} is written by others at the same time: {reply.message}",
                    "the runtime tries again by itself",
                ),
                0.1 * turns.jitter(),
            )
        if reply.status == 422:
            self._refusals += 1
            if self._refusals >= _REFUSALS:
                raise shortage.refused(one.name, reply.message)
        return reply.status == 200


class Wanted(Later):
    """`want` stands on a pool; pending() looks for the answer there, while no lock is held."""

    def __init__(self, growth: Growth, call: Call, one: hints.Pool, unanswered: CniError) -> None:
        super().__init__(unanswered)
        self._growth = growth
        self._call = call
        self._name = one.name
        self._cidr = one.cidr
        self._taken = set(one.records)
        self._unanswered = unanswered

    def pending(self) -> bool:
        """Tell whether nothing has changed yet that another turn could use."""
        if self._call.given_up():
            return False
        one = hints.Pool(self._name, self._cidr)
        self.failure, self.delay = self._unanswered, None
        try:
            there = self._call.objects.read_pool(one)
        except Later as later:
            self.failure, self.delay = later.failure, later.delay
            return True
        if not there or one.closed:
            return False
        if naming.ANNOTATION_WANT in one.notes:
            return self._taken.issubset(one.records)
        self._growth.answered(one.notes)
        return False


def _because(failure: CniError, why: str) -> CniError:
    return CniError(failure.code, f"{failure.msg}; {why}", failure.details)


def _path(annotation: str) -> str:
    return f"{_NOTES}/{annotation.replace('/', '~1')}"
