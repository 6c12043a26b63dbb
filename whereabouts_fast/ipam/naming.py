"""Names, labels and annotations of the objects that controller and plugin find each other by.

The names are those that whereabouts gives, so that existing objects stay valid. Facts are never
parsed back out of a name.
"""

from __future__ import annotations

from whereabouts_fast.ipam import address

GROUP = "whereabouts.cni.cncf.io"
VERSION = "v1alpha1"

LABEL_NODE = "whereabouts-fast.io/node"
LABEL_NETWORK = "whereabouts-fast.io/network"
ANNOTATION_WANT = "whereabouts-fast.io/want"
ANNOTATION_MORE = "whereabouts-fast.io/more"
ANNOTATION_REFUSED = "whereabouts-fast.io/refused"
ANNOTATION_ATTACHED = "whereabouts-fast.io/attached"
ANNOTATION_LIFTED = "whereabouts-fast.io/lifted"
ANNOTATION_LIFTING = "whereabouts-fast.io/lifting"

_LOWER = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_ALNUM = _LOWER | frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_LABEL = _ALNUM | frozenset("-_.")
_NAME_LIMIT = 253
_LABEL_LIMIT = 63
_LABEL_KEPT = 46


class InvalidNameError(ValueError):
    """A whole name that the API server would refuse; `name` holds it."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f'"{name}" cannot name an object: lower case letters, digits, "-" and ".", '
            f"at most {_NAME_LIMIT} characters"
        )
        self.name = name


def is_object_name(text: str) -> bool:
    """Tell whether the API server accepts a text as the name of an object (RFC 1123 subdomain)."""
    return 0 < len(text) <= _NAME_LIMIT and all(
        part
        and part[0] in _LOWER
        and part[-1] in _LOWER
        and _LOWER.issuperset(part.replace("-", ""))
        for part in text.split(".")
    )


def plain(text: str) -> str:
    """Return what an address, or a CIDR in canonical text, is in a name."""
    # Only an ending colon is completed: whereabouts does so, and its objects keep their names.
    if text.endswith(":"):
        text += "0"
    return text.replace(":", "-").replace("/", "-")


def ip_pool(cidr_text: str, network_name: str = "", node: str = "") -> str:
    """Return the name of an IPPool; with a node, that of one slice.

    `cidr_text` may have host bits. Raises InvalidNameError, and AddressError for a bad CIDR.
    """
    return _whole(network_name, node, plain(address.cidr_text(*address.parse_cidr(cidr_text))))


def slice_pool(name: str) -> str:
    """Return the plain name of a network's NodeSlicePool. Raises InvalidNameError."""
    return _whole(name)


def slice_pool_long(name: str, cidr: str) -> str:
    """Return the name a NodeSlicePool has when another network owns the plain one."""
    return _whole(name, plain(address.cidr_text(*address.parse_cidr(cidr))))


def reservation(address_text: str, network_name: str = "") -> str:
    """Return the name of an address's OverlappingRangeIPReservation. Raises InvalidNameError."""
    return _whole(network_name, plain(address.text(*address.parse(address_text))))


def label_value(text: str) -> str:
    """Return a text as a label value, shortened with its SHA-256 where it cannot be one as it is.

    Labels only serve selection; the objects hold the full text.
    """
    if not text or (
        len(text) <= _LABEL_LIMIT
        and text[0] in _ALNUM
        and text[-1] in _ALNUM
        and _LABEL.issuperset(text)
    ):
        return text
    kept = "".join(c for c in text if c in _LABEL).lstrip("-_.")[:_LABEL_KEPT]
    digest = _sha256(text.encode("utf-8", "surrogatepass"))[:16]
    return f"{kept}-{digest}" if kept else digest


def _whole(*parts: str) -> str:
    name = "-".join(part for part in parts if part)
    if not is_object_name(name):
        raise InvalidNameError(name)
    return name


def _sha256(data: bytes) -> str:
    # The C module below hashlib, whose own start costs the plugin more than the digest.
    try:
        from _sha2 import sha256  # type: ignore[import-not-found]
    except ImportError:
        try:
            from _sha256 import sha256  # type: ignore[import-not-found]
        except ImportError:
            from hashlib import sha256
    digest: str = sha256(data).hexdigest()
    return digest
