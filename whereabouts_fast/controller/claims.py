"""What one NetworkAttachmentDefinition asks for: its networks, or why it cannot be right."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from whereabouts_fast.controller.reasons import Reason
from whereabouts_fast.ipam import netconf, selectors
from whereabouts_fast.ipam.netconf import ConfigError, NetConf, Network
from whereabouts_fast.ipam.selectors import EVERYTHING, Selector, SelectorError
from whereabouts_fast.resources.attachments import NODE_SELECTOR

if TYPE_CHECKING:
    from whereabouts_fast.resources.attachments import AttachmentView

_KNOWN_KEYS = (
    "range", "range_start", "range_end", "exclude", "ipRanges", "node_slice_size", "network_name",
    "gateway", "routes", "dns", "addresses", "enable_overlapping_ranges", "node_slice_max",
    "node_slice_cooldown", "address_cooldown", "configuration_path", "kubernetes",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Source:
    """The NAD that says something; the order of instances is age, then namespace and name."""

    created: str
    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def rank(self) -> tuple[str, str]:
        """Sorts the oldest first; creation times are RFC 3339 in UTC, which sort as text."""
        return self.created, self.key


@dataclass(frozen=True, slots=True)
class Problem:
    """Something to tell the owner of a NAD, once."""

    source: Source
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Claim:
    """One network as one NAD describes it; `place` is its position in the NAD.

    `selector` says which nodes take part, None when that cannot be read.
    """

    source: Source
    place: int
    network: Network
    selector: Selector | None = EVERYTHING


@dataclass(frozen=True, slots=True)
class Reading:
    """All that one NAD says."""

    claims: tuple[Claim, ...] = ()
    problems: tuple[Problem, ...] = ()


def read(nad: AttachmentView) -> Reading:
    """Read one NAD; what is wrong with it becomes problems, never an exception.

    A NAD of another IPAM type, or one that leaves its configuration to a file, says nothing.
    """
    source = Source(nad.created, nad.namespace, nad.name, nad.uid)
    if nad.problem:
        return Reading(problems=(Problem(source, Reason.INVALID, nad.problem),))
    selector, fault = _selector(nad.node_selector)
    try:
        confs = [
            netconf.parse(config, fallback_name=nad.name)
            for config in netconf.ipam_configs(_decode(nad.config))
        ]
        claims = tuple(
            Claim(source, place, network, selector)
            for place, network in enumerate(n for conf in confs for n in conf.networks)
        )
    except ConfigError as error:
        return Reading(problems=(Problem(source, Reason.INVALID, str(error)),))
    slips = [text for conf in confs for text in _slips(conf)]
    texts = ["; ".join(slips), fault if claims else ""]
    return Reading(claims, tuple(Problem(source, Reason.INVALID, text) for text in texts if text))


def _selector(text: str) -> tuple[Selector | None, str]:
    try:
        return selectors.parse(text), ""
    except SelectorError as error:
        return None, (
            f'annotation {NODE_SELECTOR} "{text}" {error}: write a label selector such as'
            " role=worker,zone in (a,b); until then the nodes that hold slices keep them, and no"
            " other gets one"
        )


def _decode(text: str) -> object:
    if not text.strip():
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        shown = text if len(text) <= 60 else text[:60] + "..."
        problem = f"is not JSON ({error})"
        raise ConfigError("config", shown, problem, "write a JSON object") from None


def _slips(conf: NetConf) -> list[str]:
    slips = []
    for key in conf.unknown:
        near = difflib.get_close_matches(_snake(key), _KNOWN_KEYS, n=1)
        hint = f", did you mean {near[0]}?" if near else ""
        slips.append(f"ipam.{key} is not known and has no effect{hint}")
    return slips


def _snake(key: str) -> str:
    return "".join("_" + c.lower() if c.isupper() else c for c in key)
