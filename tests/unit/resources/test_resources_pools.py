"""IPPools decoded and encoded."""

from __future__ import annotations

from typing import Any

import pytest

from whereabouts_fast.ipam import address, naming
from whereabouts_fast.ipam.holdings import PoolSeen
from whereabouts_fast.ipam.leaks import Allocation
from whereabouts_fast.resources.poolpatches import adopt_patch
from whereabouts_fast.resources.pools import decode_pool, encode_pool

HOLDER = {"id": "c1", "podref": "tenant/p1"}


def stored(name: str = "blue-n1-10.40.0.64-26", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": "ipam-system",
            "uid": "u",
            "resourceVersion": "7",
            "managedFields": [{}],
        },
        "spec": {"range": "10.40.0.64/26", "allocations": {}, **spec},
    }


def test_what_is_encoded_is_decoded_alike() -> None:
    body = encode_pool(
        namespace="ipam-system",
        cidr="10.40.0.64/26",
        node="n1",
        network="blue",
        network_name="blue",
        overlapping=True,
    )
    assert body["metadata"]["labels"] == {naming.LABEL_NODE: "n1", naming.LABEL_NETWORK: "blue"}
    view = decode_pool(body)
    assert view.name == "blue-n1-10.40.0.64-26"
    assert (view.version, view.base, view.prefix) == (4, 0x0A280040, 26)
    assert (view.node, view.network, view.space) == ("n1", "blue", "blue")
    assert view.closed
    assert view.overlapping
    assert not view.used
    assert view.seen() == PoolSeen(view.name, "n1", "blue", 0x0A280040, 26, True, True)


@pytest.mark.parametrize(
    ("name", "spec", "space", "exact"),
    [
        ("blue-n1-10.40.0.64-26", {"node": "n1", "network": "blue"}, "blue", True),
        ("n1-10.40.0.64-26", {"node": "n1", "network": "blue"}, "", True),
        ("10.40.0.64-26", {}, "", True),
        ("blue-10.40.0.64-26", {"network": "blue"}, "blue", True),
        ("blue-n1-10.40.0.64-26", {}, "", False),
        ("blue-n1-10.40.0.64-26", {"node": "n1"}, "", False),
        ("blue-n1-10.40.0.64-26", {"network": "blue"}, "blue", False),
        ("blue-n1-10.40.0.64-26", {"node": "n2", "network": "blue"}, "blue", False),
        ("copy", {"node": "n1", "network": "blue"}, "blue", False),
        ("copy", {"node": "n1", "network": "B_D"}, "B_D", False),
    ],
)
def test_a_pool_is_what_it_says_only_when_its_name_says_the_same(
    name: str, spec: dict[str, Any], space: str, exact: bool
) -> None:
    view = decode_pool(stored(name, **spec))
    assert (view.space, view.exact, view.problem) == (space, exact, "")
    # One that is not takes its range from everybody, and is nobody's.
    said = (spec.get("node", ""), spec.get("network", "")) if exact else ("", "")
    assert (view.seen().node, view.seen().network) == said


def test_a_pool_without_network_may_be_of_each_that_its_name_begins_with() -> None:
    view = decode_pool(stored("blue-rack-n1-10.40.0.64-26"))
    may = ["", "blue", "blue-rack", "blue-rack-n1"]
    assert [s for s in [*may, "blu", "blue-r", "red", "n1"] if view.may_be_in(s)] == may
    assert view.seen("n1", "blue-rack").node == "n1"


def test_marks_that_are_not_set_are_absent() -> None:
    body = encode_pool(
        namespace="s", cidr="fd10::/64", node="", network="x", network_name="", closed=False
    )
    assert body["metadata"]["name"] == "fd10---64"
    assert body["metadata"]["labels"] == {naming.LABEL_NETWORK: "x"}
    assert body["spec"] == {"range": "fd10::/64", "allocations": {}, "network": "x"}


def test_long_names_of_nodes_stay_whole_in_the_spec() -> None:
    node = ("n" * 60 + ".") * 3 + "example"
    body = encode_pool(namespace="s", cidr="10.0.0.0/26", node=node, network="b", network_name="b")
    assert body["spec"]["node"] == node
    assert len(body["metadata"]["labels"][naming.LABEL_NODE]) == 63
    assert decode_pool(body).space == "b"


@pytest.mark.parametrize(
    ("cidr", "node", "error"),
    [("10.0.0.0", "n1", address.AddressError), ("10.0.0.0/8", "N1", naming.InvalidNameError)],
)
def test_what_cannot_be_named_is_refused(cidr: str, node: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        encode_pool(namespace="s", cidr=cidr, node=node, network="b", network_name="b")


@pytest.mark.parametrize(
    ("name", "spec", "space"),
    [
        ("n1-10.40.0.64-26", {"node": "n1", "network": "macvlan"}, ""),
        ("macvlan-n1-10.40.0.64-26", {"node": "n1", "network": "macvlan"}, "macvlan"),
        # A node's name may look like anything, so only the whole name decides.
        ("blue-n1-10.40.0.64-26", {"node": "blue-n1", "network": "red"}, ""),
        ("10.40.0.64-26", {}, ""),
    ],
)
def test_the_name_tells_the_address_space(name: str, spec: dict[str, str], space: str) -> None:
    assert decode_pool(stored(name, **spec)).space == space


@pytest.mark.parametrize(
    "text",
    ["10.40.0.70/26", "10.40.0.64/26", "10.40.0.65-10.40.0.70/26", "10.40.0.65-10.40.0.64/26"],
)
def test_ranges_are_read_as_any_whereabouts_wrote_them(text: str) -> None:
    view = decode_pool(stored(range=text))
    assert (view.base, view.prefix, view.problem) == (0x0A280040, 26, "")


def test_malformed_entries_count_as_used() -> None:
    view = decode_pool(stored(allocations={"1": HOLDER, "x": None, "-3": {}}))
    assert view.used == 3
    assert not view.seen().empty


def test_annotations_are_told_apart_from_their_absence() -> None:
    raw = stored()
    raw["metadata"]["annotations"] = {naming.ANNOTATION_WANT: "", naming.ANNOTATION_MORE: "p2"}
    view = decode_pool(raw)
    assert (view.want, view.more, view.refused) == ("", "p2", None)


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (stored(range="999.0.0.0/8"), 'spec.range "999.0.0.0/8"'),
        (stored(range=7), "spec.range 7"),
        (stored(allocations=[1]), "spec.allocations [1]"),
        ({"metadata": {"name": "blue-n1-10.40.0.64-26"}}, "spec "),
    ],
)
def test_an_unreadable_pool_says_so_and_keeps_its_name(raw: dict[str, Any], problem: str) -> None:
    view = decode_pool(raw)
    assert view.name == "blue-n1-10.40.0.64-26"
    assert view.problem.startswith(problem)
    assert view.version == 0


def test_annotating_a_pool_never_wipes_what_is_there() -> None:
    raw = encode_pool(
        namespace="ipam-system", cidr="10.40.0.0/24", node="", network="a", network_name=""
    )
    bare = decode_pool(raw)
    note = {naming.ANNOTATION_ATTACHED: "true"}
    assert adopt_patch(bare, "a")[-2:] == [
        {"op": "test", "path": "/metadata/annotations", "value": None},
        {"op": "add", "path": "/metadata/annotations", "value": note},
    ]
    raw["metadata"]["annotations"] = {"x": "y"}
    path = "/metadata/annotations/whereabouts-fast.io~1attached"
    assert adopt_patch(decode_pool(raw), "a")[-1] == {"op": "add", "path": path, "value": "true"}


def test_entries_are_those_that_a_patch_can_name() -> None:
    whole = {"id": "c", "podref": "tenant/a", "ifname": "net1", "uid": "u", "node": "n1"}
    bare = {"id": "c", "podref": "tenant/b", "uid": 7}
    allocations = {
        "5": whole,
        "6": bare,
        "07": bare,
        "x": bare,
        "-1": bare,
        "²": bare,
        "8": None,
        "9" * 5000: bare,
    }
    pool = decode_pool(
        {"metadata": {"name": "p"}, "spec": {"range": "10.40.0.0/26", "allocations": allocations}}
    )
    assert pool.used == 8
    assert pool.entries == (
        Allocation("p", 5, "c", "tenant/a", "net1", "u", "n1"),
        Allocation("p", 6, "c", "tenant/b"),
    )
