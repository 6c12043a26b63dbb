"""Facts about conditional writes on which pools and tables rely, seen on the real API server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hack.cluster.api import Api, ApiError
from whereabouts_fast.ipam.holdings import Figures, Held
from whereabouts_fast.kube.resource import IPPOOLS, NODESLICEPOOLS
from whereabouts_fast.resources.poolpatches import close_patch, open_patch
from whereabouts_fast.resources.pools import decode_pool, encode_pool
from whereabouts_fast.resources.tables import Condition, TableView, decode_table, encode_table

NAMESPACE = "ipam-system"
POOL = IPPOOLS.path(NAMESPACE, "blue-n1-10.40.0.0-26")
TABLE = NODESLICEPOOLS.path(NAMESPACE, "blue")
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
ENTRY = {"id": "c1", "podref": "tenant/p1", "ifname": "net1", "uid": "u1"}
BASE = 0x0A280000


@pytest.fixture
def pool(api: Api) -> dict[str, Any]:
    """A new pool as the controller creates it: closed."""
    body = encode_pool(
        namespace=NAMESPACE,
        cidr="10.40.0.0/26",
        node="n1",
        network="blue",
        network_name="blue",
    )
    return api.create(IPPOOLS.path(NAMESPACE), body)


def status_of(api: Api, path: str, operations: list[dict[str, Any]]) -> tuple[int, str]:
    try:
        api.patch(path, operations)
    except ApiError as error:
        return error.status, error.reason
    return 200, ""


def test_a_test_for_null_passes_only_while_the_path_is_absent(
    api: Api, pool: dict[str, Any]
) -> None:
    absent = [{"op": "test", "path": "/spec/overlapping", "value": None}]
    present = [{"op": "test", "path": "/spec/closed", "value": None}]
    assert status_of(api, POOL, absent) == (200, "")
    assert status_of(api, POOL, present) == (422, "Invalid")


@pytest.mark.parametrize("field", ["uid", "resourceVersion"])
def test_a_failed_test_of_metadata_is_invalid_like_any_other(
    api: Api, pool: dict[str, Any], field: str
) -> None:
    wrong = [{"op": "test", "path": f"/metadata/{field}", "value": "1"}]
    right = [{"op": "test", "path": f"/metadata/{field}", "value": pool["metadata"][field]}]
    assert status_of(api, POOL, wrong) == (422, "Invalid")
    assert status_of(api, POOL, right) == (200, "")


def test_a_patch_of_nothing_is_not_found(api: Api) -> None:
    assert status_of(api, POOL, open_patch("u")) == (404, "NotFound")


def test_opening_removes_the_mark_and_managed_fields_for_good(
    api: Api, pool: dict[str, Any]
) -> None:
    assert pool["spec"]["closed"] is True
    assert pool["metadata"]["managedFields"]
    opened = api.patch(POOL, open_patch(pool["metadata"]["uid"]))
    assert "closed" not in opened["spec"]
    assert "managedFields" not in opened["metadata"]
    for offset in ("1", "2"):
        add = [{"op": "add", "path": f"/spec/allocations/{offset}", "value": ENTRY}]
        assert "managedFields" not in api.patch(POOL, add)["metadata"]
    assert status_of(api, POOL, open_patch(pool["metadata"]["uid"]))[0] == 422


def test_opening_tests_the_uid(api: Api, pool: dict[str, Any]) -> None:
    assert status_of(api, POOL, open_patch("another")) == (422, "Invalid")
    assert api.get(POOL)["spec"]["closed"] is True


def test_closing_is_conditional_on_the_uid_and_may_be_repeated(
    api: Api, pool: dict[str, Any]
) -> None:
    view = decode_pool(pool)
    api.patch(POOL, open_patch(view.uid))
    assert status_of(api, POOL, close_patch(replace(view, uid="another"))) == (422, "Invalid")
    assert "closed" not in api.get(POOL)["spec"]
    for _ in range(2):
        assert decode_pool(api.patch(POOL, close_patch(view))).closed


def test_a_patch_can_be_answered_with_metadata_only(api: Api, pool: dict[str, Any]) -> None:
    headers = {"Content-Type": "application/json-patch+json", "Accept": METADATA_ONLY}
    change = close_patch(decode_pool(pool))
    answer = api.request("PATCH", POOL, change, headers=headers)
    assert answer["kind"] == "PartialObjectMetadata"
    assert answer["metadata"]["uid"] == pool["metadata"]["uid"]
    assert "spec" not in answer


@pytest.mark.parametrize("stale", ["uid", "resource_version"])
def test_deleting_with_a_stale_precondition_conflicts(
    api: Api, pool: dict[str, Any], stale: str
) -> None:
    uid, version = ("1", None) if stale == "uid" else (None, "1")
    with pytest.raises(ApiError) as refused:
        api.delete(POOL, uid=uid, resource_version=version)
    assert (refused.value.status, refused.value.reason) == (409, "Conflict")
    assert api.get(POOL)["metadata"]["uid"] == pool["metadata"]["uid"]


def test_an_address_that_slipped_in_makes_the_deletion_fail(api: Api, pool: dict[str, Any]) -> None:
    seen = decode_pool(pool)
    api.patch(POOL, [{"op": "add", "path": "/spec/allocations/1", "value": ENTRY}])
    with pytest.raises(ApiError) as refused:
        api.delete(POOL, uid=seen.uid, resource_version=seen.resource_version)
    assert refused.value.status == 409


def encoded(existing: TableView | None, *held: Held, waiting: int = 0) -> dict[str, Any]:
    return encode_table(
        existing,
        namespace=NAMESPACE,
        name="blue",
        network="blue",
        network_name="blue",
        version=4,
        cidr="10.40.0.0/24",
        size=26,
        held=held,
        figures=Figures(len(held), 0, 0, 4 - len(held)),
        waiting=waiting,
        conditions=[Condition("Ready", "True", "Served")],
        now=1_700_000_000.25,
    )


def test_a_table_is_written_by_compare_and_swap_and_read_back_alike(api: Api) -> None:
    first = Held("n1", BASE, 26)
    draining = Held("n2", BASE + 64, 26, "Draining", 1_700_000_000.123457)
    created = decode_table(api.create(NODESLICEPOOLS.path(NAMESPACE), encoded(None, first)))
    assert created.held == (first,)
    written = decode_table(api.replace(TABLE, encoded(created, first, draining)))
    assert written.held == (first, draining)
    assert written.condition("Ready") == Condition("Ready", "True", "Served")
    with pytest.raises(ApiError) as refused:
        api.replace(TABLE, encoded(created, first))
    assert (refused.value.status, refused.value.reason) == (409, "Conflict")


def test_the_same_table_written_again_does_not_change_its_version(api: Api) -> None:
    created = decode_table(
        api.create(NODESLICEPOOLS.path(NAMESPACE), encoded(None, Held("n1", BASE, 26)))
    )
    again = decode_table(api.replace(TABLE, encoded(created, Held("n1", BASE, 26))))
    assert again.resource_version == created.resource_version
