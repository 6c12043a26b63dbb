"""What this node believes about its pools of one network: a file that may be lost or wrong.

The truth is in the API objects. A hint saves the requests that would read them, and it keeps the
order of this node's own processes by a lock. Anything unreadable is treated as absent.
"""

from __future__ import annotations

import posix
import time

from cni import files, jsontext
from whereabouts_fast.ipam import address, pool, ranges

SCHEMA = 3

# A record is a list, for hundreds of them are read and written by every call.
CONTAINER, IFNAME, PODREF, UID, CLAIMS, ORIGIN, RESERVATION = range(
    7
)  # `find_pod` relies on the order
INTENT = 0  # as CLAIMS: a patch may or may not have been stored

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Record = list[Any]


class Pool:
    """One pool that this node gives addresses from, and who holds which offset.

    `records` maps offset -> [container id, interface, pod, pod uid, claims, origin, reservation];
    claims counts the ADDs that were answered with this address, INTENT while none is known to be
    stored; origin is the name of the configuration that it was given under, reservation the uid of
    the address's reservation, both "" where this node does not know.
    `space` is the network_name that the pool's addresses are kept apart under. A `shared` pool is
    written by all nodes: `foreign` are the offsets in `records` that others hold, of which a hint
    keeps the number alone, `others`.
    `freed` maps offset -> moment of release on the monotonic clock. `fresh` means read from the
    server, or changed by us since, in this call; `notes` are the annotations that were read then.
    """

    __slots__ = (
        "cidr",
        "closed",
        "foreign",
        "freed",
        "fresh",
        "name",
        "notes",
        "others",
        "overlapping",
        "records",
        "shared",
        "space",
        "uid",
    )

    def __init__(self, name: str, cidr: str, space: str = "", *, shared: bool = False) -> None:
        self.name = name
        self.cidr = cidr
        self.space = space
        self.shared = shared
        self.foreign: set[int] = set()
        self.others = 0
        self.uid = ""
        self.closed = True
        self.overlapping = False
        self.records: dict[int, Record] = {}
        self.freed: dict[int, float] = {}
        self.fresh = False
        self.notes: dict[str, object] = {}

    def window(self, network: ranges.Range) -> ranges.Range | None:
        """Return the addresses of the network's range in this slice, None when it lies outside."""
        version, base, prefix = address.parse_cidr(self.cidr)
        try:
            return network.slice(base, prefix) if version == network.version else None
        except ranges.RangeError:
            return None

    def entries(self) -> dict[int, pool.Entry]:
        """Return the records as entries of the pool."""
        return {
            offset: pool.Entry(record[CONTAINER], record[PODREF], record[IFNAME], record[UID])
            for offset, record in self.records.items()
        }

    def take_over(self, entries: dict[int, pool.Entry], node: str = "") -> None:
        """Replace the records by what the server says; claims of unchanged ones are kept.

        In a shared pool this node's own entries are those with its name, and those in its hint.
        """
        old, strangers = self.records, self.foreign
        self.foreign = set()
        self.records = {}
        for offset, entry in entries.items():
            before = old.get(offset)
            same = before is not None and (before[CONTAINER], before[IFNAME]) == (
                entry.id,
                entry.ifname,
            )
            kept = [1, "", ""]
            if same and before:
                kept = [max(1, before[CLAIMS]), before[ORIGIN], before[RESERVATION]]
            self.records[offset] = [entry.id, entry.ifname, entry.podref, entry.uid, *kept]
            if self.shared and entry.node != node and (not same or offset in strangers):
                self.foreign.add(offset)
        self.others = len(self.foreign)
        self.freed = {o: at for o, at in self.freed.items() if o not in entries}
        self.fresh = True

    def encode(self) -> list[object]:
        """Return what `decode_pool` reads."""
        return [
            self.name,
            self.cidr,
            self.uid,
            int(self.closed) | int(self.overlapping) << 1 | int(self.shared) << 2,
            {
                str(offset): record
                for offset, record in self.records.items()
                if offset not in self.foreign
            },
            {str(offset): at for offset, at in self.freed.items()},
            self.space,
            self.others,
        ]

    def free(self, network: ranges.Range) -> bool:
        """Tell whether there is an address that an ADD may have, be it one that cools."""
        window = None if self.closed else self.window(network)
        if window is None:
            return False
        if self.shared and not self.fresh:
            return window.size > len(self.records) + self.others
        return pool.choose(window, self.records) is not None


def decode_pool(raw: Any) -> Pool:
    """Read one pool of a hint; raises ValueError, TypeError or KeyError for what is not one."""
    name, cidr, uid, flags, records, freed, space, others = raw
    found = Pool(_text(name), _text(cidr), _text(space), shared=bool(flags & 4))
    found.others = max(0, int(others))
    address.parse_cidr(cidr)
    found.uid = _text(uid)
    found.closed = bool(flags & 1)
    found.overlapping = bool(flags & 2)
    for offset, record in records.items():
        container, ifname, podref, pod_uid, claims, origin, reservation = record
        # One look at all texts: this runs for every address of the slice.
        texts = container + ifname + podref + pod_uid + origin + reservation
        if type(texts) is not str or type(claims) is not int:
            raise TypeError("record")
        found.records[int(offset)] = record
    found.freed = {int(offset): _moment(at) for offset, at in freed.items()}
    return found


def _moment(value: Any) -> float:
    # JSON can write numbers that are infinite to us, and those have no JSON form.
    return max(0.0, min(float(value), now()))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("text")
    return value


class Hint:
    """This node's view of one network. `known` is False when there was no usable file.

    `contact` is the moment of the last answer of the API server that this network's calls had.
    """

    __slots__ = ("configs", "contact", "known", "node", "pools")

    def __init__(self, node: str) -> None:
        self.node = node
        self.known = False
        self.pools: list[Pool] = []
        self.configs: list[str] = []
        self.contact = 0.0

    def find(self, container_id: str, ifname: str) -> tuple[Pool, int] | None:
        """Return where an attachment's address lives.

        Old versions of whereabouts recorded no interface: such an entry is meant when its
        container has no other.
        """
        same = 0
        bare: tuple[Pool, int] | None = None
        for one in self.pools:
            for offset, record in one.records.items():
                if record[CONTAINER] != container_id:
                    continue
                if record[IFNAME] == ifname:
                    return one, offset
                same += 1
                if not record[IFNAME]:
                    bare = one, offset
        return bare if same == 1 else None

    def find_pod(self, podref: str, uid: str, ifname: str) -> tuple[Pool, int] | None:
        """Return the address of the same pod, by name and uid, under another container id."""
        if uid:
            for one in self.pools:
                for offset, record in one.records.items():
                    if record[IFNAME:CLAIMS] == [ifname, podref, uid]:
                        return one, offset
        return None

    def can_give(self, network: ranges.Range) -> bool:
        """Tell whether it knows an address that an ADD may have, be it one that cools."""
        return self.known and any(one.free(network) for one in self.pools)

    def pool_named(self, name: str) -> Pool | None:
        """Return the pool of that name."""
        for one in self.pools:
            if one.name == name:
                return one
        return None


def boot_id() -> str:
    """Return what differs from boot to boot, for the monotonic clock starts anew with each."""
    try:
        return files.read("/proc/sys/kernel/random/boot_id").decode("ascii").strip()
    except (OSError, UnicodeError):
        return ""


class Store:
    """The hint file of one network, in a directory that only its owner may enter.

    `identity` is (name, canonical range). Where the directory is not ours or cannot be written,
    every call is a cold one: slower, never wrong.
    """

    __slots__ = ("_boot", "identity", "node", "path", "usable")

    def __init__(self, folder: str, identity: tuple[str, str], node: str) -> None:
        self.identity = identity
        self.node = node
        self.path = f"{folder}/{file_name('@'.join(identity))}"
        self.usable = open_folder(folder)
        self._boot = boot_id()

    def load(self) -> Hint:
        """Read the hint; one that is missing or not to be trusted gives an empty Hint."""
        if self.usable:
            found = read_hint(self.path + ".json", self._boot)
            if found is not None and found[0] == self.identity and found[1].node == self.node:
                return found[1]
        return Hint(self.node)

    def save(self, hint: Hint) -> None:
        """Write the hint; what cannot be written is removed, for old beliefs mislead."""
        if not self.usable:
            return
        if not hint.known:
            self._forget()
            return
        data = [
            SCHEMA,
            self._boot,
            *self.identity,
            self.node,
            hint.configs,
            [one.encode() for one in hint.pools],
            hint.contact,
        ]
        try:
            files.replace(self.path + ".json", jsontext.encode(data))
        except OSError:
            self._forget()

    def _forget(self) -> None:
        for name in (".json", ".json.tmp"):
            try:
                posix.unlink(self.path + name)
            except OSError:
                pass


def read_hint(path: str, boot: str) -> tuple[tuple[str, str], Hint] | None:
    """Read a hint file as ((name, range), Hint), None for anything that is not one of this boot."""
    try:
        raw: Any = jsontext.parse(files.read(path))
        schema, written_boot, name, cidr, node, configs, pools, contact = raw
        if schema != SCHEMA or written_boot != boot or not boot:
            return None
        hint = Hint(_text(node))
        hint.configs = [_text(config) for config in configs]
        hint.pools = [decode_pool(one) for one in pools]
        # Of another time base: no contact that STATUS could rely on.
        hint.contact = _moment(contact) if contact <= now() else 0.0
        hint.known = True
        return (_text(name), _text(cidr)), hint
    except (OSError, ValueError, TypeError, KeyError, AttributeError, ArithmeticError):
        return None


def holders(folder: str, container_id: str, ifname: str, config: str) -> list[tuple[str, str]]:
    """Return the networks whose hint knows an attachment that came by this configuration's name.

    Without a name, any network's hint counts.
    """
    found = []
    boot = boot_id()
    try:
        names = posix.listdir(folder) if open_folder(folder) else []
    except OSError:
        names = []
    for name in sorted(names):
        read_back = read_hint(f"{folder}/{name}", boot) if name.endswith(".json") else None
        if read_back is None or (config and config not in read_back[1].configs):
            continue
        if read_back[1].find(container_id, ifname) is not None:
            found.append(read_back[0])
    return found


def open_folder(folder: str) -> bool:
    """Make the directory if need be; tell whether it is ours alone and so to be trusted."""
    for again in (True, False):
        try:
            state = posix.stat(folder)
        except OSError:
            if not again:
                return False
            try:
                posix.mkdir(folder, 0o700)
            except OSError:
                return False
            continue
        own = state.st_uid == posix.geteuid() and not state.st_mode & 0o022
        return own and state.st_mode & 0o170000 == 0o040000
    return False


def file_name(text: str) -> str:
    """Return a file name for a text: readable, unique but for a checksum where it is long."""
    plain = "".join(c if (c.isalnum() and c.isascii()) or c in "-._@:" else "_" for c in text)
    if len(plain) <= 180 and plain == text.replace("/", "_"):
        return plain
    import binascii

    check = binascii.crc32(text.encode("utf-8", "surrogateescape"))
    return f"{plain[:180]}+{check:08x}"


def now() -> float:
    """Return the moment on the clock that hints use, in seconds since boot."""
    return time.monotonic()
