"""NetworkAttachmentDefinitions (k8s.cni.cncf.io/v1): only metadata and the configuration's text.

What the configuration means is the business of `ipam.netconf`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from whereabouts_fast.resources.metadata import Metadata, Model, metadata_of, problem_of

NODE_SELECTOR = "k8s.v1.cni.cncf.io/nodeSelector"
"""The annotation that says which nodes take part."""


@dataclass(frozen=True, slots=True)
class AttachmentView:
    """One NetworkAttachmentDefinition; `config` is empty when it has none.

    `node_selector` is the text of the annotation that says which nodes take part, "" for all.
    `problem` is "" unless the object could not be read.
    """

    namespace: str
    name: str
    uid: str
    created: str
    config: str
    resource_version: str = ""
    problem: str = ""
    node_selector: str = ""

    @property
    def key(self) -> str:
        """Return "namespace/name"."""
        return f"{self.namespace}/{self.name}"

    @property
    def age(self) -> tuple[str, str]:
        """Return what sorts attachments oldest first, so that the oldest wins a conflict."""
        return (self.created, self.key)


class _Spec(Model):
    config: str | None = None


class _Attachment(Model):
    metadata: Metadata
    spec: _Spec | None = None


def decode_attachment(raw: dict[str, Any]) -> AttachmentView:
    """Decode a NetworkAttachmentDefinition."""
    problem, config = "", ""
    try:
        model = _Attachment.model_validate(raw)
    except ValidationError as error:
        meta, problem = metadata_of(raw), problem_of(error)
    else:
        meta = model.metadata
        config = (model.spec.config if model.spec else None) or ""
    return AttachmentView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        created=meta.created,
        config=config,
        resource_version=meta.resource_version,
        problem=problem,
        node_selector=(meta.annotations or {}).get(NODE_SELECTOR, ""),
    )
