"""The objects of one network as the API server has them: slice table, pools, reservations."""

from __future__ import annotations

from cni import errors, hints
from cni.apiserver import ApiServer, Reply
from cni.errors import CniError
from whereabouts_fast.ipam import address, naming, pool, ranges
from whereabouts_fast.ipam.netconf import Network

_COOLING = "Cooling"  # the state of a slice whose pool is confirmed gone
_DRAINING = "Draining"
_EXHAUSTED = "Exhausted"

POOLS = "ippools"
TABLES = "nodeslicepools"
RESERVATIONS = "overlappingrangeipreservations"


class Facts:
    """What a table says about one node.

    `table` is its name, "" when the network has none. `active` are the slices from which new
    addresses may come, `missing` those of them whose pool does not exist or is not open yet.
    In classic mode the one pool of the network stands for the table and for its only slice.
    `reserved` are addresses that others have, and whose they are.
    """

    __slots__ = ("active", "exhausted", "missing", "reserved", "table")

    def __init__(self) -> None:
        self.table = ""
        self.exhausted = False
        self.active: list[str] = []
        self.missing: list[str] = []
        self.reserved: dict[int, str] = {}


class Objects:
    """Reads and writes objects in the system namespace; raises what ApiServer raises."""

    __slots__ = ("_api", "_node")

    def __init__(self, api: ApiServer, node: str) -> None:
        self._api = api
        self._node = node

    def patch_pool(self, name: str, ops: list[dict[str, object]]) -> Reply:
        """Send a JSON Patch to a pool."""
        return self._api.patch(self._path(POOLS, name), f"{POOLS} {name}", ops)

    def create_pool(self, network: Network, *, standalone: bool) -> None:
        """Create the pool that all nodes share, if it is not there yet.

        The controller opens it once it has seen to overlaps; where there is none, every address
        is reserved instead.
        """
        name = naming.ip_pool(network.range.cidr, network.network_name)
        mark = "overlapping" if standalone else "closed"
        spec = {"range": network.range.cidr, "allocations": {}, "network": network.name, mark: True}
        labels = {naming.LABEL_NETWORK: naming.label_value(network.name)}
        metadata: dict[str, object] = {"name": name, "labels": labels}
        self._create(POOLS, "IPPool", metadata, spec)

    def reserve(self, name: str, entry: pool.Entry) -> str:
        """Create a reservation; return its uid, "" when there is one of this name."""
        spec: dict[str, object] = {
            "podref": entry.podref,
            "containerid": entry.id,
            "ifname": entry.ifname,
        }
        return self._create(RESERVATIONS, "OverlappingRangeIPReservation", {"name": name}, spec)

    def read_reservation(self, name: str) -> tuple[str, pool.Entry] | None:
        """Return uid and holder of a reservation."""
        reply = self._api.get(self._path(RESERVATIONS, name), f"{RESERVATIONS} {name}")
        if reply.status == 404:
            return None
        spec = _part(_must(reply, RESERVATIONS).data, "spec")
        texts = [spec.get(key) for key in ("containerid", "podref", "ifname")]
        return reply.uid, pool.Entry(*(text if isinstance(text, str) else "" for text in texts))

    def patch_reservation(self, name: str, ops: list[dict[str, object]]) -> Reply:
        """Send a JSON Patch to a reservation."""
        return self._api.patch(self._path(RESERVATIONS, name), f"{RESERVATIONS} {name}", ops)

    def delete_reservation(self, name: str, uid: str) -> None:
        """Delete the reservation with this uid; one that is gone, or another by now, is left."""
        path = self._path(RESERVATIONS, name)
        reply = self._api.delete(path, f"{RESERVATIONS} {name}", uid)
        if reply.status not in (404, 409):
            _must(reply, RESERVATIONS)

    def _create(
        self, plural: str, kind: str, metadata: dict[str, object], spec: dict[str, object]
    ) -> str:
        body: dict[str, object] = {
            "apiVersion": f"{naming.GROUP}/{naming.VERSION}",
            "kind": kind,
            "metadata": metadata,
            "spec": spec,
        }
        reply = self._api.create(self._path(plural), f"{plural} {metadata['name']}", body)
        if reply.status == 409 and reply.data.get("reason") == "AlreadyExists":
            return ""
        return _must(reply, plural, "creating").uid

    def read_pool(self, known: hints.Pool) -> bool:
        """Bring a pool up to date; False when there is no such object."""
        reply = self._api.get(self._path(POOLS, known.name), f"{POOLS} {known.name}")
        if reply.status == 404:
            return False
        _fill(known, _must(reply, POOLS).data, self._node)
        return True

    def glance(self, known: hints.Pool) -> bool:
        """Tell whether a pool is there and still the one we know; its entries are not read."""
        path = self._path(POOLS, known.name)
        reply = self._api.get(path, f"{POOLS} {known.name}", metadata_only=True)
        return reply.status != 404 and _must(reply, POOLS).uid == known.uid

    def list_pools(self, hint: hints.Hint, network: Network | None = None) -> list[hints.Pool]:
        """Return all pools of the hint's node, or those of one network: the only LIST there is.

        What the hint knows of them is kept as far as it is still true.
        """
        selector = f"labelSelector={naming.LABEL_NODE}%3D{naming.label_value(hint.node)}"
        reply = _must(self._api.get(f"{self._path(POOLS)}?{selector}", POOLS), POOLS)
        items = reply.data.get("items")
        found = [_own(item, network, hint) for item in (items if isinstance(items, list) else ())]
        return [one for one in found if one is not None]

    def read_own(self, name: str, network: Network, hint: hints.Hint) -> hints.Pool | None:
        """Return a pool that the hint may not know yet, None unless it is this node's own."""
        reply = self._api.get(self._path(POOLS, name), f"{POOLS} {name}")
        return None if reply.status == 404 else _own(_must(reply, POOLS).data, network, hint)

    def learn(self, network: Network, hint: hints.Hint) -> Facts:
        """Read the table and every pool that it gives this node into the hint.

        In classic mode, the one pool of the network.
        """
        facts = Facts()
        shared = network.slice_size is None
        before = {one.name: one for one in hint.pools}
        # Attachments keep their addresses where their network has changed its mode.
        kept = [one for one in hint.pools if one.shared != shared and one.records]
        for one in kept:
            one.closed = True
        if shared:
            self._learn_shared(network, facts, before, hint)
            hint.pools += kept
            return facts
        table = self._table(network, facts)
        hint.pools = []
        if table is None:
            return facts
        for cidr, state in _slices(table, hint.node):
            if state != _DRAINING:
                facts.active.append(cidr)
            name = naming.ip_pool(cidr, network.network_name, hint.node)
            one = before.get(name) or hints.Pool(name, cidr, network.network_name)
            exists = self.read_pool(one)
            if exists:
                hint.pools.append(one)
            if state != _DRAINING and (not exists or one.closed):
                facts.missing.append(cidr)
        hint.pools += kept
        return facts

    def _learn_shared(
        self, network: Network, facts: Facts, before: dict[str, hints.Pool], hint: hints.Hint
    ) -> None:
        cidr = network.range.cidr
        name = naming.ip_pool(cidr, network.network_name)
        one = before.get(name) or hints.Pool(name, cidr, network.network_name, shared=True)
        hint.pools = []
        if self.read_pool(one):
            facts.table = name
            facts.active.append(cidr)
            facts.missing += [cidr] if one.closed else []
            hint.pools.append(one)

    def _table(self, network: Network, facts: Facts) -> dict[str, object] | None:
        # The plain name may belong to another network: then ours has the long one.
        for name in (
            naming.slice_pool(network.name),
            naming.slice_pool_long(network.name, network.range.cidr),
        ):
            reply = self._api.get(self._path(TABLES, name), f"{TABLES} {name}")
            if reply.status == 404:
                continue
            table = _must(reply, TABLES).data
            if _overlaps(_part(table, "spec").get("range"), network.range):
                facts.table = name
                facts.exhausted = _condition(table, _EXHAUSTED)
                return table
        return None

    def _path(self, plural: str, name: str = "") -> str:
        root = f"/apis/{naming.GROUP}/{naming.VERSION}/namespaces/{self._api.access.namespace}"
        return f"{root}/{plural}/{name}" if name else f"{root}/{plural}"


def _must(reply: Reply, what: str, doing: str = "reading") -> Reply:
    if reply.status != 200:
        raise CniError(
            errors.TRY_AGAIN,
            f"the API server answered {doing} {what} with {reply.status}: {reply.message}",
            "see the API server's log",
        )
    return reply


def _own(item: object, network: Network | None, hint: hints.Hint) -> hints.Pool | None:
    """Read a pool object if it is of the hint's node, and of this network where one is given."""
    metadata, spec = _part(item, "metadata"), _part(item, "spec")
    if spec.get("node") != hint.node:  # a label may be shortened, the field is the truth
        return None
    name = str(metadata.get("name"))
    one = hint.pool_named(name) or hints.Pool(name, str(spec.get("range")))
    if network is not None and not (spec.get("network") == network.name and _inside(one, network)):
        return None
    one.space = _space(one, str(spec.get("network") or ""), hint.node)
    _fill(one, item, hint.node)
    return one


def _part(data: object, key: str) -> dict[str, object]:
    part = data.get(key) if isinstance(data, dict) else None
    return part if isinstance(part, dict) else {}


def _space(one: hints.Pool, network: str, node: str) -> str:
    """Return the network_name that a pool's addresses are kept apart under."""
    try:
        unnamed = naming.ip_pool(one.cidr, "", node)
    except (naming.InvalidNameError, address.AddressError):
        return network
    return "" if one.name == unnamed else network


def _fill(known: hints.Pool, data: object, node: str) -> None:
    metadata, spec = _part(data, "metadata"), _part(data, "spec")
    known.uid = str(metadata.get("uid"))
    known.notes = _part(metadata, "annotations")
    known.closed = bool(spec.get("closed"))
    known.overlapping = bool(spec.get("overlapping"))
    known.take_over(pool.decode(spec.get("allocations")), node)


def _slices(table: dict[str, object], node: str) -> list[tuple[str, str]]:
    """Return the (CIDR, state) of each slice that may have a pool of this node."""
    entries = _part(table, "status").get("allocations")
    found = []
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict) or entry.get("nodeName") != node:
            continue
        cidr, state = entry.get("sliceRange"), entry.get("state")
        try:
            address.parse_cidr(cidr)  # type: ignore[arg-type]
        except address.AddressError:
            continue  # one bad entry does not stop the others
        if state != _COOLING:
            found.append((str(cidr), str(state)))
    return found


def _overlaps(text: object, wanted: ranges.Range) -> bool:
    try:
        return isinstance(text, str) and ranges.build(text).overlaps(wanted)
    except (ranges.RangeError, address.AddressError):
        return False


def _inside(one: hints.Pool, network: Network) -> bool:
    try:
        return one.window(network.range) is not None
    except address.AddressError:
        return False


def _condition(table: dict[str, object], kind: str) -> bool:
    conditions = _part(table, "status").get("conditions")
    for condition in conditions if isinstance(conditions, list) else ():
        if isinstance(condition, dict) and condition.get("type") == kind:
            return condition.get("status") == "True"
    return False
