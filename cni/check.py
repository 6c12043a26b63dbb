"""CHECK: what the API server has recorded for an attachment is what the runtime was answered."""

from __future__ import annotations

from cni import configured, errors, hints, log, shortage, turns
from cni.apiserver import UnknownOutcome
from cni.call import Call
from cni.deadline import Deadline
from cni.errors import CniError, Later
from cni.hints import CONTAINER, IFNAME, PODREF
from cni.protocol import Request
from whereabouts_fast.ipam import address, pool
from whereabouts_fast.ipam.netconf import Network

TYPE_CHECKING = False
if TYPE_CHECKING:
    Address = tuple[int, int]

_ROUNDS = 16  # of one turn: each costs at least a request


def check(request: Request, environ: dict[str, str], start: float, parent: int) -> None:
    """Return when records and prevResult agree; raises CniError 103 when they do not."""
    conf, here = configured.read(request, environ)
    with log.Failures(conf, request):
        configured.check(here)
        answered = previous(request.config.get("prevResult"))
        call = Call(request, conf, here, Deadline(start, conf.add_deadline_seconds), parent)
        call.api.connect()
        from cni import fixed

        _, passed = fixed.split(request, conf)
        recorded = {network: Recorded(call, network).find() for network in conf.networks}
        through = [str(one["address"]) for one in conf.addresses] + [one.cidr for one in passed]
        _compare([address.parse_cidr(text)[:2] for text in through], recorded, answered)


def previous(result: object) -> list[Address]:
    """Read the addresses of a prevResult in the shape of any version; raises CniError 7."""
    if not isinstance(result, dict):
        raise CniError(
            errors.CONFIGURATION,
            "prevResult of the network configuration is missing or no object",
            "the runtime has to pass the result of the ADD (CNI specification, section CHECK)",
        )
    ips = result.get("ips")
    texts = [_member(one, "address") for one in ips] if isinstance(ips, list) else []
    texts += [_member(result[key], "ip") for key in ("ip4", "ip6") if result.get(key)]
    found = []
    for text in texts:
        try:
            found.append(address.parse_cidr(text)[:2])  # type: ignore[arg-type]
        except address.AddressError as error:
            raise CniError(
                errors.CONFIGURATION,
                f'prevResult has the address "{text}", which {error}',
                "the runtime has to pass the result of the ADD unchanged",
            ) from None
    return found


def _member(data: object, key: str) -> object:
    return data.get(key) if isinstance(data, dict) else None


def _compare(
    fixed: list[Address], recorded: dict[Network, Address], answered: list[Address]
) -> None:
    for network, one in recorded.items():
        space = network.range
        others = [
            other
            for other in answered
            if other[0] == space.version
            and space.base <= other[1] <= space.end
            and other != one
            and other not in fixed
        ]
        if one not in answered or others:
            shown = ", ".join(address.text(*other) for other in others or answered)
            raise _failed(
                f'network "{network.name}" ({space.cidr}) has {address.text(*one)} recorded for '
                f"this attachment, prevResult says {shown or 'nothing'}"
            )
    for one in fixed:
        if one not in answered:
            raise _failed(f"prevResult lacks the fixed address {address.text(*one)}")


def _failed(what: str) -> CniError:
    return CniError(errors.CHECK_FAILED, what, "delete the pod, so that it is set up anew")


def _address(one: hints.Pool, offset: int) -> Address:
    version, base, prefix = address.parse_cidr(one.cidr)
    if not 0 <= offset < 1 << address.width(version) - prefix:
        raise _failed(f"pool {one.name} has this attachment recorded at {offset}, outside itself")
    return version, base + offset


class Recorded(turns.Turns):
    """One attachment's entry in the pools of one network."""

    __slots__ = ("_network",)

    def __init__(self, call: Call, network: Network) -> None:
        super().__init__(call, network.identity)
        self._network = network

    def find(self) -> Address:
        """Return the address that is recorded; raises CniError 103 when there is none."""
        return self.take(self._turn)

    def _turn(self) -> Address:
        request = self._call.request
        learnt = not self.hint.known
        if learnt:
            self._learn()
        for _ in range(_ROUNDS):
            found = self.hint.find(request.container_id, request.ifname)
            if found is not None:
                if found[0].fresh or self._confirmed(*found):
                    self.save()
                    return _address(*found)
            elif learnt:
                raise _failed(
                    f'network "{self._network.name}" ({self._network.range.cidr}) has no address '
                    f"recorded for container {request.container_id}, interface {request.ifname} "
                    f"on {self._call.node.identities}"
                )
            else:
                learnt = True
                self._learn()
        raise shortage.refused(self._network.name, "they change faster than they can be read")

    def _confirmed(self, one: hints.Pool, offset: int) -> bool:
        """Have the server test the entry: a patch that changes nothing, and is small."""
        record = one.records[offset]
        entry = pool.Entry(record[CONTAINER], record[PODREF], record[IFNAME])
        objects = self._call.objects
        try:
            reply = objects.patch_pool(one.name, pool.confirm_patch(offset, entry))
        except UnknownOutcome as unknown:
            raise Later(unknown.failure, unknown.delay) from None
        if reply.status == 200 and reply.uid == one.uid:
            return True
        if not objects.read_pool(one):
            self._learn()
        return False

    def _learn(self) -> None:
        facts = self._call.objects.learn(self._network, self.hint)
        self.hint.known = facts.table != ""
        self.save()
