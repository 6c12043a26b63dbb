"""Nodes and NetworkAttachmentDefinitions decoded."""

from __future__ import annotations

from typing import Any

import pytest

from whereabouts_fast.ipam.holdings import NodeSeen
from whereabouts_fast.resources.attachments import decode_attachment
from whereabouts_fast.resources.nodes import decode_node

CREATED = "2026-01-01T00:00:00Z"


def attachment(spec: Any, **meta: str) -> dict[str, Any]:
    told = {"name": "blue", "namespace": "tenant", "uid": "u", "creationTimestamp": CREATED}
    return {"metadata": {**told, **meta}, "spec": spec}


def test_an_attachment_is_its_metadata_and_text() -> None:
    view = decode_attachment(attachment({"config": "{}"}))
    assert (view.key, view.uid, view.created, view.config) == ("tenant/blue", "u", CREATED, "{}")
    assert view.problem == ""


@pytest.mark.parametrize("spec", [{}, None, {"config": None}, {"config": ""}])
def test_an_attachment_without_configuration_has_an_empty_one(spec: Any) -> None:
    view = decode_attachment(attachment(spec))
    assert (view.config, view.problem) == ("", "")


def test_an_attachment_without_a_spec_has_an_empty_configuration() -> None:
    raw = attachment(None)
    del raw["spec"]
    assert decode_attachment(raw).config == ""


def test_an_unreadable_attachment_says_so_and_keeps_its_name() -> None:
    view = decode_attachment(attachment({"config": 7}))
    assert view.key == "tenant/blue"
    assert view.problem.startswith("spec.config 7")


def test_attachments_sort_oldest_first_then_by_name() -> None:
    old, new = attachment({}, name="z"), attachment({}, name="a", creationTimestamp="2026-02")
    twin = attachment({}, name="y")
    views = [decode_attachment(raw) for raw in (new, old, twin)]
    assert [v.name for v in sorted(views, key=lambda v: v.age)] == ["y", "z", "a"]


def test_a_node_being_deleted_is_still_a_node() -> None:
    meta = {"name": "n1", "creationTimestamp": CREATED, "labels": {"a": "b"}}
    view = decode_node({"metadata": meta})
    assert (view.name, view.created, view.deleting, view.labels) == (
        "n1",
        CREATED,
        False,
        {"a": "b"},
    )
    leaving = decode_node({"metadata": {**meta, "deletionTimestamp": CREATED}})
    assert leaving.deleting
    assert leaving.seen() == view.seen() == NodeSeen(CREATED, "n1")


def test_an_unreadable_node_keeps_its_name() -> None:
    view = decode_node({"metadata": {"name": "n1", "creationTimestamp": CREATED, "labels": 7}})
    assert view.seen() == NodeSeen(CREATED, "n1")
