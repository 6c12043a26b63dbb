"""Nodes, of which only the metadata is watched."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from whereabouts_fast.ipam.holdings import NodeSeen
from whereabouts_fast.resources.metadata import Metadata, Model, metadata_of


@dataclass(frozen=True, slots=True)
class NodeView:
    """One listed node; `created` is its creationTimestamp, whose texts sort by time."""

    name: str
    created: str
    deleting: bool = False
    labels: dict[str, str] = field(default_factory=dict, hash=False)

    def seen(self) -> NodeSeen:
        """Return what slice plans need of the node."""
        return NodeSeen(self.created, self.name)


class _Node(Model):
    metadata: Metadata


def decode_node(raw: dict[str, Any]) -> NodeView:
    """Decode a Node or its PartialObjectMetadata; a node being deleted is still a node."""
    try:
        meta = _Node.model_validate(raw).metadata
    except ValidationError:
        meta = metadata_of(raw)
    return NodeView(meta.name, meta.created, meta.deleting is not None, meta.labels or {})
