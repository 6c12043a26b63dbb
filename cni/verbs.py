"""The verbs: what each call does from its request to its answer."""

from __future__ import annotations

from cni import detach, errors, hints, log, node, results
from cni.attach import Attach, Given
from cni.call import Call
from cni.deadline import Deadline
from cni.detach import Detach
from cni.errors import CniError
from cni.marks import Marks
from cni.protocol import Request
from whereabouts_fast.ipam import naming, netconf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Print = Callable[[dict[str, object]], None]


def add(request: Request, environ: dict[str, str], start: float, parent: int, out: Print) -> None:
    """Give the attachment an address and print the result; on failure keep nothing."""
    here = node.look(request.config, environ, lenient=False)
    try:
        conf = netconf.parse(request.config, here.defaults)
    except netconf.ConfigError as error:
        raise CniError(
            errors.CONFIGURATION, f"network configuration: {error}", error.remedy
        ) from None
    try:
        _give(request, conf, here, Deadline(start, conf.add_deadline_seconds), parent, out)
    except CniError as error:
        log.error(conf, f"ADD {request.container_id} {request.ifname}: {error.msg}")
        raise


def _give(
    request: Request,
    conf: netconf.NetConf,
    here: node.Node,
    deadline: Deadline,
    parent: int,
    out: Print,
) -> None:
    _check_supported(request, conf)
    if not naming.is_object_name(here.name):
        raise CniError(
            errors.CONFIGURATION,
            f"{here.identities} cannot be a node of the cluster",
            "set NODENAME or the file nodename beside the flat file to the Node object's name",
        )
    call = Call(request, conf, here, deadline, parent)
    # Ahead of the lock: the handshakes of calls that wait for each other overlap.
    call.api.connect()
    given: list[tuple[netconf.Network, Given]] = []
    try:
        for network in conf.networks:
            one = Attach(call, network).give()
            given.append((network, one))
        why = call.given_up()
        if why:
            raise CniError(
                errors.TRY_AGAIN,
                f"the runtime has given this ADD up: {why}",
                "nothing is kept for it; the runtime tries again by itself",
            )
        out(_result(request, conf, given))
    except BaseException:
        for network, one in given:
            _give_back(call, network, one)
        raise


def _give_back(call: Call, network: netconf.Network, one: Given) -> None:
    if one.took:
        try:
            Detach(call, network.identity).give_back(one.pool, one.offset, one.claims)
        except CniError:
            # What failed first is what the runtime has to know; its DEL comes for the address.
            pass


def _check_supported(request: Request, conf: netconf.NetConf) -> None:
    """Refuse what this version cannot do yet, before anything is allocated."""
    for network in conf.networks:
        if network.slice_size is None:
            raise _not_yet("ipam", "a network without node_slice_size", "node_slice_size")
    if conf.overlap_reservations == "always":
        raise _not_yet("overlap_reservations", "reservations for every address", '"auto"')
    runtime = request.config.get("runtimeConfig")
    args = request.config.get("args")
    cni_args = args.get("cni") if isinstance(args, dict) else None
    for where, asked in (
        ("CNI_ARGS IP", request.args.get("IP")),
        ("runtimeConfig.ips", runtime.get("ips") if isinstance(runtime, dict) else None),
        ("args.cni.ips", cni_args.get("ips") if isinstance(cni_args, dict) else None),
    ):
        if asked:
            raise _not_yet(where, "a fixed address asked for by the runtime", "none")
    families = ["4" if network.range.version == 4 else "6" for network in conf.networks]
    extra = [results.Address(str(one["address"])).family for one in conf.addresses]
    results.check_families(request.version, families + extra)


def _not_yet(key: str, what: str, remedy: str) -> CniError:
    return CniError(
        errors.UNSUPPORTED_FIELD,
        f"{key}: {what} is not supported by this version of whereabouts-fast yet",
        f"use {remedy}",
    )


def _result(
    request: Request, conf: netconf.NetConf, given: list[tuple[netconf.Network, Given]]
) -> dict[str, object]:
    addresses = [results.Address(one.cidr, network.gateway) for network, one in given]
    addresses += [
        results.Address(str(extra["address"]), str(extra.get("gateway", "")))
        for extra in conf.addresses
    ]
    return results.add_result(request.version, addresses, list(conf.routes), conf.dns)


def delete(request: Request, environ: dict[str, str], start: float, parent: int) -> None:
    """Free what the attachment holds; nothing found anywhere is success.

    Of the configuration only what makes sense is used, for it may be anything by now.
    """
    here = node.look(request.config, environ, lenient=True)
    conf = netconf.parse_lenient(request.config, here.defaults)
    try:
        _free(request, conf, here, Deadline(start, conf.del_deadline_seconds), parent)
    except CniError as error:
        log.error(conf, f"DEL {request.container_id} {request.ifname}: {error.msg}")
        raise


def _free(
    request: Request, conf: netconf.NetConf, here: node.Node, deadline: Deadline, parent: int
) -> None:
    # Before anything that takes time or may fail: an ADD that is still running has to see it.
    keep = 2 * conf.add_deadline_seconds
    Marks(conf.hints_dir).leave(request.container_id, request.ifname, keep)
    call = Call(request, conf, here, deadline, parent)
    call.api.connect()
    networks = [network for network in conf.networks if network.slice_size is not None]
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
        detach.Search(call).by_label()
