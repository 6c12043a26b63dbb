"""Addresses that a runtime asks for: CNI_ARGS IP, args.cni.ips, or the capability ips.

Where several ask, the later in this order counts, as with the CNI static plugin. Each is "address"
or "address/prefix".
"""

from __future__ import annotations

from cni import errors, results
from cni.errors import CniError
from cni.protocol import Request
from whereabouts_fast.ipam import address
from whereabouts_fast.ipam.netconf import NetConf, Network

TYPE_CHECKING = False
if TYPE_CHECKING:
    Asked = tuple[str, int, int, int | None]  # text, IP version, address, prefix length


def split(request: Request, conf: NetConf) -> tuple[dict[Network, int], list[results.Address]]:
    """Return the address that each network has to give, and what is passed through.

    An address inside a range is that network's business, whatever prefix length it has; one
    outside all ranges needs a prefix length. Raises CniError 7 or 104.
    """
    where, texts = _wanted(request)
    own: dict[Network, int] = {}
    passed: list[results.Address] = []
    known = [str(one["address"]).partition("/")[0] for one in conf.addresses]
    gateways = _list(request.args.get("GATEWAY", "")) if where == "CNI_ARGS IP" else []
    for text in texts:
        asked = _parse(where, text)
        network = _network(conf, asked)
        if network is not None:
            if network in own:
                raise _wrong(where, text, f"is the second one in {network.range.cidr}")
            if not network.range.usable(asked[2]):
                raise CniError(
                    errors.ADDRESS_UNAVAILABLE,
                    f'{where} asks for {text}, which network "{network.name}" '
                    f"({network.range.cidr}) gives to nobody",
                    "it is excluded, outside range_start to range_end, the gateway, or the range's "
                    "own network or broadcast address",
                )
            own[network] = asked[2]
        elif asked[3] is None:
            raise _wrong(where, text, "lies outside all ranges and has no prefix length")
        elif address.text(asked[1], asked[2]) not in known:
            known.append(address.text(asked[1], asked[2]))
            passed.append(_through(asked, gateways))
    return own, passed


def _wanted(request: Request) -> tuple[str, list[object]]:
    args = _object(request.config, "args")
    cni = args.get("cni")
    for where, texts in (
        ("runtimeConfig.ips", _object(request.config, "runtimeConfig").get("ips")),
        ("args.cni.ips", cni.get("ips") if isinstance(cni, dict) else None),
    ):
        if texts:
            if not isinstance(texts, list):
                raise _wrong(where, texts, "is not a list")
            return where, texts
    return "CNI_ARGS IP", _list(request.args.get("IP", ""))


def _object(data: dict[str, object], key: str) -> dict[str, object]:
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def _list(text: str) -> list[object]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _parse(where: str, text: object) -> Asked:
    try:
        if isinstance(text, str) and "/" not in text:
            return (text, *address.parse(text), None)
        return (str(text), *address.parse_cidr(text))  # type: ignore[arg-type]
    except address.AddressError as error:
        raise _wrong(where, text, str(error)) from None


def _network(conf: NetConf, asked: Asked) -> Network | None:
    for network in conf.networks:
        space = network.range
        if space.version == asked[1] and space.base <= asked[2] <= space.end:
            return network
    return None


def _through(asked: Asked, gateways: list[object]) -> results.Address:
    _, version, value, prefix = asked
    assert prefix is not None
    host_bits = address.width(version) - prefix
    gateway = ""
    for text in gateways:
        _, other, near, _ = _parse("CNI_ARGS GATEWAY", text)
        if other == version and near >> host_bits == value >> host_bits:
            gateway = address.text(other, near)
    return results.Address(f"{address.text(version, value)}/{prefix}", gateway)


def _wrong(where: str, value: object, problem: str) -> CniError:
    return CniError(
        errors.CONFIGURATION,
        f'{where}: "{value}" {problem}',
        "ask for addresses such as 10.40.0.9 or 10.40.0.9/24, one for each range",
    )
