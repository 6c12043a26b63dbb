"""Choosing in a pool, and the patches that make the choice so."""

from __future__ import annotations

from whereabouts_fast.ipam import pool, ranges

ENTRY = pool.Entry("c1", "tenant/a", "net1", uid="u1")
PATH = "/spec/allocations/5"


def test_a_huge_range_with_a_huge_hole_answers_at_once() -> None:
    space = ranges.build("fd10::/64", exclude=["fd10::/100"])
    assert pool.choose(space, set()) == 2**28
    assert pool.choose(space, {2**28}) == 2**28 + 1
    assert pool.choose(ranges.build("fd10::/64", exclude=["fd10::/64"]), set()) is None


class CountingSet(set[int]):
    looked = 0

    def __contains__(self, offset: object) -> bool:
        self.looked += 1
        return super().__contains__(offset)


def test_a_choice_looks_at_no_more_offsets_than_are_taken_and_one() -> None:
    space = ranges.build("10.0.0.0/8", exclude=["10.0.0.100", "10.0.1.0/24"])
    taken = CountingSet(range(1, 4001))
    assert pool.choose(space, taken) == 4001
    assert taken.looked <= len(taken) + 1
    taken.looked = 0
    assert pool.choose(space, taken, start=4000) == 4001
    assert taken.looked == 2


def test_a_choice_starts_no_lower_than_told() -> None:
    space = ranges.build("10.0.0.0/29", exclude=["10.0.0.4"])
    assert pool.choose(space, set(), start=3) == 3
    assert pool.choose(space, {3}, start=3) == 5
    assert pool.choose(space, set(), start=4) == 5
    assert pool.choose(space, set(), start=7) is None


def test_an_attachment_is_found_by_container_and_interface() -> None:
    other = pool.Entry("c1", "tenant/a", "net2")
    assert pool.find({5: ENTRY, 6: other}, "c1", "net2") == 6
    assert pool.find({5: ENTRY, 6: other}, "c1", "net3") is None
    assert pool.find({5: ENTRY, 6: other}, "c2", "net1") is None


def test_taking_tests_the_marks_and_the_offset() -> None:
    assert pool.add_patch(5, ENTRY) == [
        {"op": "test", "path": "/spec/closed", "value": None},
        {"op": "test", "path": "/spec/overlapping", "value": None},
        {"op": "test", "path": PATH, "value": None},
        {
            "op": "add",
            "path": PATH,
            "value": {"id": "c1", "podref": "tenant/a", "ifname": "net1", "uid": "u1"},
        },
    ]
    assert pool.add_patch(5, ENTRY, overlapping=True)[1]["value"] is True


def test_confirming_tests_the_holder_and_changes_nothing() -> None:
    assert pool.confirm_patch(5, ENTRY) == [
        {"op": "test", "path": PATH + "/id", "value": "c1"},
        {"op": "test", "path": PATH + "/ifname", "value": "net1"},
    ]


def test_freeing_tests_the_mark_and_the_holder() -> None:
    patch = pool.remove_patch(5, "c1", "net1", uid="u1")
    assert patch == [
        {"op": "test", "path": "/spec/overlapping", "value": None},
        {"op": "test", "path": PATH + "/id", "value": "c1"},
        {"op": "test", "path": PATH + "/ifname", "value": "net1"},
        {"op": "test", "path": PATH + "/uid", "value": "u1"},
        {"op": "remove", "path": PATH},
    ]
    without_uid = pool.remove_patch(5, "c1", "", overlapping=True)
    assert [op["value"] for op in without_uid[:-1]] == [True, "c1", None]
