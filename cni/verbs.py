"""ADD and DEL: what each call does from its request to its answer."""

from __future__ import annotations

from cni import configured, errors, hints, log, node, results
from cni.attach import Attach, Given
from cni.call import Call
from cni.deadline import Deadline
from cni.detach import Detach, Search
from cni.errors import CniError
from cni.marks import Marks
from cni.protocol import Request
from whereabouts_fast.ipam import naming, netconf

_TO_GIVE_BACK = 1.0  # seconds of an ADD's time that are kept for undoing it

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Print = Callable[[dict[str, object]], None]


def add(request: Request, environ: dict[str, str], start: float, parent: int, out: Print) -> None:
    """Give the attachment an address and print the result; on failure keep nothing."""
    conf, here = configured.read(request, environ)
    with log.Failures(conf, request):
        _give(request, conf, here, Deadline(start, conf.add_deadline_seconds), parent, out)


def _give(
    request: Request,
    conf: netconf.NetConf,
    here: node.Node,
    deadline: Deadline,
    parent: int,
    out: Print,
) -> None:
    configured.check(here)
    asked: dict[netconf.Network, int] = {}
    passed = [
        results.Address(str(one["address"]), str(one.get("gateway", ""))) for one in conf.addresses
    ]
    if request.args.get("IP") or request.config.get("args") or request.config.get("runtimeConfig"):
        from cni import fixed

        asked, more = fixed.split(request, conf)
        passed += more
    families = ["4" if network.range.version == 4 else "6" for network in conf.networks]
    results.check_families(request.version, families + [one.family for one in passed])
    call = Call(request, conf, here, deadline, parent)
    # Ahead of the lock: the handshakes of calls that wait for each other overlap.
    call.api.connect()
    given: list[tuple[netconf.Network, Given]] = []
    attach: Attach | None = None
    end = deadline.end
    deadline.end -= min(_TO_GIVE_BACK, conf.add_deadline_seconds / 4)
    try:
        for network in conf.networks:
            attach = Attach(call, network, asked.get(network))
            given.append((network, attach.give()))
        why = call.given_up()
        if why:
            raise CniError(
                errors.TRY_AGAIN,
                f"the runtime has given this ADD up: {why}",
                "nothing is kept for it; the runtime tries again by itself",
            )
        addresses = [results.Address(one.cidr, network.gateway) for network, one in given]
        out(results.add_result(request.version, addresses + passed, list(conf.routes), conf.dns))
    except BaseException:
        deadline.end = end
        if attach is not None:
            _quietly(attach.abandon)
        for network, one in given:
            if one.took:
                _give_back(call, network, one)
        raise


def _give_back(call: Call, network: netconf.Network, one: Given) -> None:
    _quietly(lambda: Detach(call, network.identity).give_back(one))


def _quietly(undo: Callable[[], None]) -> None:
    try:
        undo()
    except CniError:
        # What failed first is what the runtime has to know; its DEL comes for the address.
        pass


def delete(request: Request, environ: dict[str, str], start: float, parent: int) -> None:
    """Free what the attachment holds; nothing found anywhere is success.

    Of the configuration only what makes sense is used, for it may be anything by now.
    """
    here = node.look(request.config, environ, lenient=True)
    conf = netconf.parse_lenient(request.config, here.defaults)
    with log.Failures(conf, request):
        _free(request, conf, here, Deadline(start, conf.del_deadline_seconds), parent)


def _free(
    request: Request, conf: netconf.NetConf, here: node.Node, deadline: Deadline, parent: int
) -> None:
    # Before anything that takes time or may fail: an ADD that is still running has to see it.
    keep = 2 * conf.add_deadline_seconds
    Marks(conf.hints_dir).leave(request.container_id, request.ifname, keep)
    call = Call(request, conf, here, deadline, parent)
    call.api.connect()
    networks = conf.networks
    missing = [one for one in networks if not Detach(call, one.identity).by_hint()]
    if networks and not missing:
        return
    # The address may have been given under a configuration that was changed since.
    others = hints.holders(conf.hints_dir, request.container_id, request.ifname, request.name)
    moved = sum([Detach(call, identity).by_hint() for identity in others])
    if moved and moved >= len(missing):
        return
    if naming.is_object_name(here.name):
        missing = [one for one in missing if not Detach(call, one.identity).by_table(one)]
    if missing or not networks:
        Search(call).by_label()
