"""GC: free what this node has recorded for attachments that do not live any more."""

from __future__ import annotations

from cni import configured, errors, log, turns
from cni.call import Call
from cni.deadline import Deadline
from cni.detach import Detach
from cni.errors import CniError
from cni.hints import CONTAINER, IFNAME, ORIGIN
from cni.protocol import Request, is_word
from whereabouts_fast.ipam.netconf import Network

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cni.hints import Pool, Record

_KEYS = ("cni.dev/valid-attachments", "cni.dev/attachments")  # the second is what it was once


def collect(request: Request, environ: dict[str, str], start: float, parent: int) -> None:
    """Free what is not in the list of valid attachments; goes on past failures, then raises."""
    alive = valid(request.config)
    conf, here = configured.read(request, environ)
    with log.Failures(conf, request):
        configured.check(here)
        call = Call(request, conf, here, Deadline(start, conf.add_deadline_seconds), parent)
        call.api.connect()
        failures = []
        for network in conf.networks:
            failures += _sweep(call, network, alive)
        if failures:
            texts = "; ".join(dict.fromkeys(failure.msg for failure in failures))
            raise CniError(
                failures[0].code, f"GC failed {len(failures)} times: {texts}", failures[0].details
            )


def valid(config: dict[str, object]) -> set[tuple[str, str]]:
    """Read the list of attachments that live, as (container id, interface).

    An absent list is not an empty one. Raises CniError 7 for everything that may not be meant.
    """
    key = next((key for key in _KEYS if config.get(key) is not None), _KEYS[0])
    attachments = config.get(key)
    if not isinstance(attachments, list):
        what = "is missing" if attachments is None else "is not a list"
        raise _wrong(f"{key} of the network configuration {what}")
    alive = set()
    for index, one in enumerate(attachments):
        container = one.get("containerID") if isinstance(one, dict) else None
        ifname = one.get("ifname") if isinstance(one, dict) else None
        if not is_word(container) or not isinstance(ifname, str) or not ifname:
            raise _wrong(f"{key}[{index}] of the network configuration is no attachment")
        alive.add((str(container), ifname))
    return alive


def _wrong(what: str) -> CniError:
    return CniError(
        errors.CONFIGURATION,
        f"{what}; nothing was freed",
        "the runtime has to list what lives, each as containerID and ifname",
    )


def _sweep(call: Call, network: Network, alive: set[tuple[str, str]]) -> list[CniError]:
    failures = []
    try:
        stale = Stale(call, network, alive).find()
    except CniError as error:
        return [error]
    # A turn for each: ADDs of this network do not wait for all of them.
    for one, offset, record in stale:
        attachment = (record[CONTAINER], record[IFNAME])
        try:
            Detach(call, network.identity, attachment).free_at(one, offset, record)
        except CniError as error:
            failures.append(error)
    return failures


class Stale(turns.Turns):
    """The entries in this node's pools of one network whose attachments do not live."""

    __slots__ = ("_alive", "_containers", "_network")

    def __init__(self, call: Call, network: Network, alive: set[tuple[str, str]]) -> None:
        super().__init__(call, network.identity)
        self._network = network
        self._alive = alive
        self._containers = {container for container, _ in alive}

    def find(self) -> list[tuple[Pool, int, Record]]:
        """Return pool, offset and record of each."""
        return self.take(self._turn)

    def _turn(self) -> list[tuple[Pool, int, Record]]:
        hint, objects = self.hint, self._call.objects
        before = list(hint.pools)
        facts = objects.learn(self._network, hint)
        hint.known = facts.table != ""
        self.save()
        if not facts.table:
            hint.pools = before
            hint.pools = objects.list_pools(hint, self._network)
        return [
            (one, offset, record)
            for one in hint.pools
            for offset, record in one.records.items()
            if offset not in one.foreign and self._is_stale(record)
        ]

    def _is_stale(self, record: Record) -> bool:
        container, ifname = record[CONTAINER], record[IFNAME]
        # The runtime lists what lives under this configuration's name. Where another one shares
        # the network, what came by that is its own business.
        theirs = record[ORIGIN] not in ("", self._call.request.name)
        if theirs or not container:
            return False
        if not ifname:  # written by an old version of whereabouts
            return container not in self._containers
        return (container, ifname) not in self._alive
