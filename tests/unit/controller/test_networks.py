"""NADs and tables -> networks: who shares, who wins, and how tables are called."""

from __future__ import annotations

import json
import random

import pytest

from whereabouts_fast.controller.claims import Reading, read
from whereabouts_fast.controller.networks import Resolution, TableSeen, resolve
from whereabouts_fast.ipam import ranges
from whereabouts_fast.resources.attachments import AttachmentView


def reading(name: str, created: int = 0, cni: str = "", **ipam: object) -> Reading:
    section = {"type": "whereabouts", "range": "10.0.0.0/24", "node_slice_size": "/26", **ipam}
    section = {key: value for key, value in section.items() if value is not None}
    config = {"cniVersion": "1.0.0", "name": cni or name, "type": "macvlan", "ipam": section}
    text = json.dumps(config)
    return read(AttachmentView("t", name, f"uid-{name}", f"2026-01-01T00:00:{created:02}Z", text))


def seen(name: str, cidr: str | None) -> TableSeen:
    return TableSeen(name, None if cidr is None else ranges.build(cidr))


def tables(resolution: Resolution) -> dict[str, str]:
    """Range -> table name, over all spaces."""
    return {
        wanted.network.range.cidr: wanted.table
        for space in resolution.spaces.values()
        for wanted in space
    }


def reasons(resolution: Resolution) -> list[tuple[str, str]]:
    return sorted((p.source.name, p.reason) for p in resolution.problems)


def test_the_outcome_does_not_depend_on_the_order_of_nads() -> None:
    all_readings = [
        reading("a", 1, cni="x"),
        reading("b", 2, cni="x", range="10.1.0.0/24"),
        reading("c", 3, cni="x", range="10.0.0.0/25"),
        reading("d", 3, cni="x", node_slice_size="/27"),
        reading("e", 0, network_name="e", range="10.0.0.0/16"),
    ]
    expected = resolve(all_readings, [])
    shuffle = random.Random(3)
    for _ in range(20):
        shuffle.shuffle(all_readings)
        got = resolve(all_readings, [])
        assert tables(got) == tables(expected)
        assert reasons(got) == reasons(expected)
    assert reasons(expected) == [("c", "OverlappingRanges"), ("d", "ConflictingNetworkConfig")]


def test_the_plain_name_goes_to_the_oldest_nads_first_range() -> None:
    two = reading(
        "old", 1, cni="x", ipRanges=[{"range": "10.2.0.0/24"}, {"range": "fd10::/112"}],
        node_slice_size="/26",
    )  # fmt: skip
    one = reading("new", 2, cni="x", range="10.9.0.0/24")
    got = tables(resolve([one, two], []))
    assert got["10.0.0.0/24"] == "x"
    assert got["10.2.0.0/24"] == "x-10.2.0.0-24"
    assert got["10.9.0.0/24"] == "x-10.9.0.0-24"


def test_names_stay_with_the_tables_that_exist() -> None:
    young = reading("young", 5, cni="x", range="10.9.0.0/24")
    old = reading("old", 1, cni="x")
    got = tables(resolve([old, young], [seen("x", "10.9.0.0/24")]))
    assert got == {"10.9.0.0/24": "x", "10.0.0.0/24": "x-10.0.0.0-24"}
    kept = tables(resolve([young], [seen("x-10.9.0.0-24", "10.9.0.0/24")]))
    assert kept == {"10.9.0.0/24": "x-10.9.0.0-24"}


@pytest.mark.parametrize("recorded", ["10.0.0.0/25", "10.0.0.0/23", "10.0.0.0/16"])
def test_an_edited_range_keeps_its_table(recorded: str) -> None:
    got = resolve([reading("a", cni="x")], [seen("x", recorded)])
    assert tables(got) == {"10.0.0.0/24": "x"}


def test_a_range_split_in_two_is_not_an_edit() -> None:
    halves = reading("a", cni="x", range="10.0.0.0/25", ipRanges=[{"range": "10.0.0.128/25"}])
    got = tables(resolve([halves], [seen("x", "10.0.0.0/24")]))
    assert got == {"10.0.0.0/25": "x-10.0.0.0-25", "10.0.0.128/25": "x-10.0.0.128-25"}


def test_a_table_still_wanted_is_nobody_elses() -> None:
    one = reading("a", 1, cni="x", range="10.0.0.0/25")
    two = reading("b", 2, cni="x", range="10.0.1.0/24")
    got = tables(resolve([one, two], [seen("x", "10.0.0.0/25")]))
    assert got == {"10.0.0.0/25": "x", "10.0.1.0/24": "x-10.0.1.0-24"}


@pytest.mark.parametrize(("before", "after"), [("x", None), ("", "x")])
def test_another_network_name_waits_for_the_pods_of_the_former(
    before: str, after: str | None
) -> None:
    """Name and range are the same, so it is the same network, with pools under other names."""
    former = TableSeen("x", ranges.build("10.0.0.0/24"), before)
    got = resolve([reading("a", cni="x", network_name=after)], [former])
    assert got.spaces == {}
    ((_, reason),) = reasons(got)
    assert reason == "OverlappingRanges"
    assert "NodeSlicePool x" in got.problems[0].message
    assert 'network_name "x"' in got.problems[0].message
    assert tables(resolve([reading("a", cni="x", network_name=after)], [])) != {}


def test_a_table_that_says_no_network_name_is_anybodys() -> None:
    got = resolve([reading("a", network_name="x")], [seen("x", "10.0.0.0/24")])
    assert tables(got) == {"10.0.0.0/24": "x"}


def test_a_far_range_need_not_wait_for_a_table_of_another_network_name() -> None:
    far = TableSeen("x", ranges.build("10.7.0.0/24"), "x")
    got = resolve([reading("a", cni="x")], [far])
    assert tables(got) == {"10.0.0.0/24": "x-10.0.0.0-24"}


def test_an_unreadable_table_is_not_replaced_by_another_name() -> None:
    assert tables(resolve([reading("a", cni="x")], [seen("x", None)])) == {"10.0.0.0/24": "x"}


def test_two_taken_names_are_told() -> None:
    taken = [seen("x", "10.7.0.0/24"), seen("x-10.0.0.0-24", "10.8.0.0/24")]
    got = resolve([reading("a", cni="x")], taken)
    assert tables(got) == {}
    ((_, reason),) = reasons(got)
    assert reason == "InvalidNetworkConfig"
    assert "taken" in got.problems[0].message


def test_who_is_served_goes_before_who_was_edited_into_its_range() -> None:
    older = reading("older", 1, cni="x")
    younger = reading("younger", 2, cni="x", range="10.0.0.0/23")
    assert tables(resolve([older, younger], [])) == {"10.0.0.0/24": "x"}
    got = resolve([older, younger], [seen("x", "10.0.0.0/23")])
    assert tables(got) == {"10.0.0.0/23": "x"}
    assert reasons(got) == [("older", "OverlappingRanges")]


def test_networks_of_other_spaces_or_families_do_not_overlap() -> None:
    got = resolve(
        [
            reading("a"),
            reading("b", network_name="b"),
            reading("c", network_name="c"),
            reading("d", range="fd10::/112", node_slice_size="/120"),
        ],
        [],
    )
    assert got.problems == ()
    assert sorted(got.spaces) == ["", "b", "c"]
    assert len(got.spaces[""]) == 2


def test_one_name_in_two_spaces_is_told_apart_only_by_ranges() -> None:
    """A node finds its table by name and range alone."""
    named = reading("a", 1, cni="n", network_name="blue")
    same = reading("b", 2, cni="blue")
    near = reading("c", 3, cni="blue", range="10.0.0.0/25")
    far = reading("d", 4, cni="blue", range="10.5.0.0/24")
    got = resolve([named, same, near, far], [])
    assert tables(got) == {"10.0.0.0/24": "blue", "10.5.0.0/24": "blue-10.5.0.0-24"}
    assert reasons(got) == [("b", "ConflictingNetworkConfig"), ("c", "OverlappingRanges")]


def test_networks_that_overlap_are_all_served_and_the_younger_is_told_once() -> None:
    classic = reading("a", 1, node_slice_size=None)
    sliced = reading("b", 2)
    wider = reading("c", 3, range="10.0.0.0/16")
    careless = reading("d", 4, range="10.0.0.0/8", enable_overlapping_ranges=False)
    got = resolve([classic, sliced, wider, careless], [])
    assert tables(got) == {"10.0.0.0/24": "b", "10.0.0.0/16": "c", "10.0.0.0/8": "d"}
    assert [pool.name for pool in got.pools[""]] == ["10.0.0.0-24"]
    assert reasons(got) == [("b", "OverlappingRanges")] + [("c", "OverlappingRanges")] * 2
    first = next(p.message for p in got.problems if p.source.name == "b")
    for word in ("t/a", "t/b", "10.0.0.0/24"):
        assert word in first


def test_classic_networks_of_one_range_share_a_pool() -> None:
    one = reading("a", 1, node_slice_size=None, enable_overlapping_ranges=False)
    two = reading("b", 2, node_slice_size=None)
    named = reading("c", 3, node_slice_size=None, network_name="c")
    got = resolve([one, two, named], [])
    assert got.problems == ()
    (pool,) = got.pools[""]
    assert (pool.name, pool.network) == ("10.0.0.0-24", "a")
    assert sorted(pool.networks) == ["a", "b"]
    # Whoever wants its addresses kept apart decides for all.
    assert pool.checked
    assert [pool.name for pool in got.pools["c"]] == ["c-10.0.0.0-24"]


def selecting(name: str, created: int, text: str) -> Reading:
    """The reading of a NAD of network x with a node selector."""
    ipam = {"type": "whereabouts", "range": "10.0.0.0/24", "node_slice_size": "/26"}
    config = json.dumps({"name": "x", "type": "macvlan", "ipam": ipam})
    time = f"2026-01-01T00:00:{created:02}Z"
    return read(AttachmentView("t", name, f"uid-{name}", time, config, node_selector=text))


def test_the_oldest_nad_says_which_nodes_take_part() -> None:
    got = resolve([selecting("a", 1, "zone=a"), selecting("b", 2, "zone=b")], [])
    ((wanted,),) = got.spaces.values()
    assert wanted.selector is not None
    assert wanted.selector.matches({"zone": "a"})
    (problem,) = got.problems
    assert problem.source.name == "b"
    assert "k8s.v1.cni.cncf.io/nodeSelector" in problem.message
    assert resolve([selecting("a", 1, "z=1"), selecting("b", 2, " z=1 ")], []).problems == ()


def test_a_selector_that_cannot_be_read_is_told_and_stands_for_nobody_new() -> None:
    got = resolve([selecting("a", 1, "zone in a")], [])
    ((wanted,),) = got.spaces.values()
    assert wanted.selector is None
    (problem,) = got.problems
    for word in ("k8s.v1.cni.cncf.io/nodeSelector", '"zone in a"', "role=worker"):
        assert word in problem.message


def test_a_selector_of_a_nad_of_another_type_is_not_looked_at() -> None:
    nad = AttachmentView("t", "a", "u", "1", '{"type": "bridge"}', node_selector="no selector")
    assert read(nad) == Reading()


def test_a_disagreement_names_every_key() -> None:
    one = reading("a", 1, cni="x")
    two = reading("b", 2, cni="x", node_slice_size="/27", node_slice_max=2, exclude=["10.0.0.9"])
    (problem,) = resolve([one, two], []).problems
    for word in ("node_slice_size", "node_slice_max", "exclude", "t/a"):
        assert word in problem.message
