"""Why a node has no address to give, in words that name network, node, slices, used and total."""

from __future__ import annotations

from cni import errors, hints
from cni.call import Call
from cni.errors import CniError
from cni.objects import Facts
from whereabouts_fast.ipam import address
from whereabouts_fast.ipam.netconf import Network

_NAME_HINT = (
    "if this node has another name in the cluster than the one above, set NODENAME or the file "
    "nodename beside the flat file"
)


def explain(
    call: Call, network: Network, facts: Facts, hint: hints.Hint, asked: int | None = None
) -> CniError:
    """Return error 11 for what the controller may put right within seconds, else error 101.

    Where one address was asked for, error 104 says why that one cannot be had.
    """
    where = f'network "{network.name}" ({network.range.cidr})'
    node = call.node.identities
    if network.slice_size is None and (asked is None or not facts.table or facts.missing):
        return _shared(call, where, network, facts, hint)
    if not facts.table:
        return CniError(
            errors.TRY_AGAIN,
            f"{where} has no slice table (NodeSlicePool) in namespace "
            f'"{call.access.namespace}", asked by {node}',
            "is the controller of whereabouts-fast running, and is there a "
            "NetworkAttachmentDefinition with this network and node_slice_size?",
        )
    if not facts.active:
        usage = _usage(network, hint, facts)
        what = f'{node} has no slice of {where} in table "{facts.table}"; {usage}'
        if facts.exhausted:
            return CniError(
                errors.NO_FREE_ADDRESS,
                f"{where} is exhausted: {what}",
                f"widen the range, make slices smaller (a longer prefix in node_slice_size), or "
                f"remove nodes; {_NAME_HINT}",
            )
        return CniError(errors.TRY_AGAIN, what, f"is the controller running? {_NAME_HINT}")
    if asked is not None and not any(_inside(cidr, asked) for cidr in facts.missing):
        return _unavailable(node, where, network, facts, hint, asked)
    if facts.missing:
        return CniError(
            errors.TRY_AGAIN,
            f"the pool of slice {', '.join(facts.missing)} of {where} is not open yet for "
            f"{node}; {_usage(network, hint, facts)}",
            "is the controller of whereabouts-fast running?",
        )
    return CniError(
        errors.NO_FREE_ADDRESS,
        f"{where} has no free address on {node}: {_usage(network, hint, facts)}",
        "remove pods from this node; a shorter prefix in node_slice_size makes new slices larger",
    )


def _shared(call: Call, where: str, network: Network, facts: Facts, hint: hints.Hint) -> CniError:
    if not facts.table or facts.missing:
        what = (
            f'pool "{facts.table}" of {where} is not open yet'
            if facts.table
            else (f'{where} has no pool in namespace "{call.access.namespace}"')
        )
        return CniError(
            errors.TRY_AGAIN,
            f"{what}, asked by {call.node.identities}",
            "is the controller of whereabouts-fast running? Where there is none, set standalone in "
            "the flat file",
        )
    return CniError(
        errors.NO_FREE_ADDRESS,
        f"{where} has no free address, asked by {call.node.identities}: "
        f"{_usage(network, hint, facts)}",
        "remove pods that use this network, or widen its range",
    )


def _unavailable(
    node: str, where: str, network: Network, facts: Facts, hint: hints.Hint, asked: int
) -> CniError:
    why = f"it lies outside this node's slices, {', '.join(facts.active)}"
    for one in hint.pools:
        if _inside(one.cidr, asked):
            _, base, _ = address.parse_cidr(one.cidr)
            record = one.records.get(asked - base)
            if asked in facts.reserved:
                why = f"an overlapping network has it reserved for {facts.reserved[asked]}"
            elif record is not None:
                why = f"pod {record[hints.PODREF]} has it (container {record[hints.CONTAINER]})"
            else:
                why = f"its slice {one.cidr} drains"
    return CniError(
        errors.ADDRESS_UNAVAILABLE,
        f"{address.text(network.range.version, asked)} of {where}, which was asked for, cannot be "
        f"given on {node}: {why}",
        "ask for another address, or for none",
    )


def _inside(cidr: str, value: int) -> bool:
    version, base, prefix = address.parse_cidr(cidr)
    host_bits = address.width(version) - prefix
    return value >> host_bits == base >> host_bits


def _usage(network: Network, hint: hints.Hint, facts: Facts) -> str:
    slices, used, total = [], 0, 0
    for one in hint.pools:
        window = one.window(network.range)
        if window is not None:
            slices.append(one.cidr)
            used += sum(window.usable(window.base + offset) for offset in one.records)
            total += window.size
    held = "range" if network.slice_size is None else "slices"
    more = f", {len(facts.reserved)} more in overlapping networks" if facts.reserved else ""
    return f"{held} {', '.join(slices) or 'none'}, used {used}{more}, total {total}"


def refused(name: str, message: str) -> CniError:
    """Return the error for a pool that takes no patch although everything tested holds."""
    return CniError(
        errors.REFUSED,
        f"the API server refuses changes of ippools {name}: {message}",
        "does an admission policy or an older custom resource definition stand in the way?",
    )
