"""The objects of one network as the API server has them: the slice table and this node's pools."""

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


class Facts:
    """What a table says about one node.

    `table` is its name, "" when the network has none. `active` are the slices from which new
    addresses may come, `missing` those of them whose pool does not exist or is not open yet.
    """

    __slots__ = ("active", "exhausted", "missing", "table")

    def __init__(self) -> None:
        self.table = ""
        self.exhausted = False
        self.active: list[str] = []
        self.missing: list[str] = []


class Objects:
    """Reads and patches objects in the system namespace; raises what ApiServer raises."""

    __slots__ = ("_api",)

    def __init__(self, api: ApiServer) -> None:
        self._api = api

    def patch_pool(self, name: str, ops: list[dict[str, object]]) -> Reply:
        """Send a JSON Patch to a pool."""
        return self._api.patch(self._path(POOLS, name), f"{POOLS} {name}", ops)

    def read_pool(self, known: hints.Pool) -> bool:
        """Bring a pool up to date; False when there is no such object."""
        reply = self._api.get(self._path(POOLS, known.name), f"{POOLS} {known.name}")
        if reply.status == 404:
            return False
        _fill(known, _must(reply, POOLS).data)
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
        node = hint.node
        before = {one.name: one for one in hint.pools}
        selector = f"labelSelector={naming.LABEL_NODE}%3D{naming.label_value(node)}"
        reply = _must(self._api.get(f"{self._path(POOLS)}?{selector}", POOLS), POOLS)
        found = []
        items = reply.data.get("items")
        for item in items if isinstance(items, list) else ():
            metadata, spec = _part(item, "metadata"), _part(item, "spec")
            if spec.get("node") != node:  # a label may be shortened, the field is the truth
                continue
            name = str(metadata.get("name"))
            one = before.get(name) or hints.Pool(name, str(spec.get("range")))
            if network is None or (spec.get("network") == network.name and _inside(one, network)):
                _fill(one, item)
                found.append(one)
        return found

    def learn(self, network: Network, hint: hints.Hint) -> Facts:
        """Read the table and every pool that it gives this node into the hint."""
        facts = Facts()
        table = self._table(network, facts)
        before = {one.name: one for one in hint.pools}
        hint.pools = []
        if table is None:
            return facts
        for cidr, state in _slices(table, hint.node):
            if state != _DRAINING:
                facts.active.append(cidr)
            name = naming.ip_pool(cidr, network.network_name, hint.node)
            one = before.get(name) or hints.Pool(name, cidr)
            exists = self.read_pool(one)
            if exists:
                hint.pools.append(one)
            if state != _DRAINING and (not exists or one.closed):
                facts.missing.append(cidr)
        return facts

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


def _must(reply: Reply, what: str) -> Reply:
    if reply.status != 200:
        raise CniError(
            errors.TRY_AGAIN,
            f"the API server answered reading {what} with {reply.status}: {reply.message}",
            "see the API server's log",
        )
    return reply


def _part(data: object, key: str) -> dict[str, object]:
    part = data.get(key) if isinstance(data, dict) else None
    return part if isinstance(part, dict) else {}


def _fill(known: hints.Pool, data: object) -> None:
    spec = _part(data, "spec")
    known.uid = str(_part(data, "metadata").get("uid"))
    known.closed = bool(spec.get("closed"))
    known.overlapping = bool(spec.get("overlapping"))
    known.take_over(pool.decode(spec.get("allocations")))


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
