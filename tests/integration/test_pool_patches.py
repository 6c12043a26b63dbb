"""The kernel's patches, judged by the API server."""

from __future__ import annotations

from typing import Any

import pytest

from hack.cluster.api import Api, ApiError
from whereabouts_fast.ipam import naming, pool

POOLS = "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/ipam-system/ippools"
NAME = naming.ip_pool("10.40.0.0/26", "blue", "n1")
ENTRY = pool.Entry("c1", "tenant/a", "net1", uid="u1")
OTHER = pool.Entry("c2", "tenant/b", "net1", uid="u2")


class Pool:
    def __init__(self, api: Api) -> None:
        self._api = api

    def create(self, **spec: Any) -> None:
        body = {
            "apiVersion": f"{naming.GROUP}/{naming.VERSION}",
            "kind": "IPPool",
            "metadata": {"name": NAME},
            "spec": {"range": "10.40.0.0/26", "allocations": {}, **spec},
        }
        self._api.create(POOLS, body)

    def patch(self, operations: list[dict[str, Any]]) -> int:
        try:
            self._api.patch(f"{POOLS}/{NAME}", operations)
        except ApiError as error:
            return error.status
        return 200

    def mark(self, name: str) -> None:
        assert self.patch([{"op": "add", "path": f"/spec/{name}", "value": True}]) == 200

    def read(self) -> dict[str, Any]:
        return self._api.get(f"{POOLS}/{NAME}")

    def holders(self) -> dict[int, pool.Entry]:
        return pool.decode(self.read()["spec"]["allocations"])


@pytest.fixture
def blue(api: Api) -> Pool:
    return Pool(api)


def test_an_offset_is_taken_once(blue: Pool) -> None:
    blue.create()
    assert blue.patch(pool.add_patch(5, ENTRY)) == 200
    assert blue.patch(pool.add_patch(5, OTHER)) == 422
    assert blue.holders() == {5: ENTRY}


@pytest.mark.parametrize("mark", ["closed", "overlapping"])
def test_a_mark_that_was_not_assumed_stops_taking(blue: Pool, mark: str) -> None:
    blue.create(**{mark: True})
    assert blue.patch(pool.add_patch(5, ENTRY)) == 422
    assert blue.holders() == {}


def test_an_assumed_overlap_mark_must_be_there(blue: Pool) -> None:
    blue.create()
    assert blue.patch(pool.add_patch(5, ENTRY, overlapping=True)) == 422
    blue.mark("overlapping")
    assert blue.patch(pool.add_patch(5, ENTRY, overlapping=True)) == 200
    assert blue.patch(pool.remove_patch(5, "c1", "net1")) == 422
    assert blue.patch(pool.remove_patch(5, "c1", "net1", overlapping=True)) == 200


def test_confirming_writes_nothing_and_works_in_a_closed_pool(blue: Pool) -> None:
    blue.create()
    assert blue.patch(pool.confirm_patch(5, ENTRY)) == 422
    blue.patch(pool.add_patch(5, ENTRY))
    blue.mark("closed")
    before = blue.read()["metadata"]["resourceVersion"]
    assert blue.patch(pool.confirm_patch(5, ENTRY)) == 200
    assert blue.patch(pool.confirm_patch(5, OTHER)) == 422
    assert blue.read()["metadata"]["resourceVersion"] == before


def test_only_the_holder_can_free_an_offset(blue: Pool) -> None:
    blue.create()
    blue.patch(pool.add_patch(5, ENTRY))
    assert blue.patch(pool.remove_patch(5, "c2", "net1")) == 422
    assert blue.patch(pool.remove_patch(5, "c1", "net2")) == 422
    assert blue.patch(pool.remove_patch(5, "c1", "net1", uid="u2")) == 422
    assert blue.patch(pool.remove_patch(6, "c1", "net1")) == 422
    assert blue.holders() == {5: ENTRY}
    blue.mark("closed")
    assert blue.patch(pool.remove_patch(5, "c1", "net1", uid="u1")) == 200
    assert blue.patch(pool.remove_patch(5, "c1", "net1", uid="u1")) == 422
    assert blue.holders() == {}


def test_an_entry_that_whereabouts_wrote_is_freed_by_what_it_names(blue: Pool) -> None:
    blue.create(allocations={"7": {"id": "c7", "podref": "tenant/old"}})
    ((offset, entry),) = blue.holders().items()
    assert blue.patch(pool.remove_patch(offset, entry.id, entry.ifname, entry.uid)) == 200
    assert blue.holders() == {}
