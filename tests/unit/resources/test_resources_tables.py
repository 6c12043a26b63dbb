"""NodeSlicePools decoded, and encoded over what was there."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from whereabouts_fast.ipam.holdings import COOLING, DRAINING, Figures, Held
from whereabouts_fast.resources.tables import (
    Condition,
    TableTooLargeError,
    TableView,
    decode_table,
    differs,
    encode_table,
)

BASE = 0x0A280000
NOW = 1_700_000_000.0
READY = Condition("Ready", "True", "Served", "4 of 4 nodes")


def entry(node: str, cidr: str, **more: str) -> dict[str, str]:
    return {"nodeName": node, "sliceRange": cidr, **more}


def stored(*allocations: Any, **parts: Any) -> dict[str, Any]:
    return {
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
        "kind": "NodeSlicePool",
        "metadata": {
            "name": "blue",
            "namespace": "ipam-system",
            "uid": "u",
            "resourceVersion": "7",
            "generation": 3,
            "managedFields": [{"manager": "m"}],
            **parts.get("metadata", {}),
        },
        "spec": {"range": "10.40.0.0/24", "sliceSize": "/26", **parts.get("spec", {})},
        "status": {"allocations": list(allocations), **parts.get("status", {})},
    }


def encoded(existing: TableView | None, *held: Held, **changes: Any) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "namespace": "ipam-system",
        "name": "blue",
        "network": "blue",
        "network_name": "blue",
        "version": 4,
        "cidr": "10.40.0.0/24",
        "size": 26,
        "held": held,
        "figures": Figures(len(held), 0, 0, 4 - len(held)),
        "waiting": 0,
        "conditions": [READY],
        "now": NOW,
        **changes,
    }
    return encode_table(existing, **arguments)


def test_a_table_of_whereabouts_is_read_with_its_free_entries_left_out() -> None:
    view = decode_table(
        stored(
            entry("n2", "10.40.0.64/26"), entry("", "10.40.0.128/26"), entry("n1", "10.40.0.0/26")
        )
    )
    assert view.held == (Held("n1", BASE, 26), Held("n2", BASE + 64, 26))
    assert (view.network, view.space, view.size) == ("blue", "", 26)
    assert (view.version, view.base, view.prefix) == (4, BASE, 24)
    assert view.problem == ""


def test_states_and_times_survive_exactly() -> None:
    held = (
        Held("n1", BASE, 26),
        Held("n2", BASE + 64, 26, DRAINING, 1_700_000_000.123457),
        Held("n3", BASE + 128, 27, COOLING, 1_700_000_000.0),
    )
    body = encoded(None, *held)
    assert [e.get("since") for e in body["status"]["allocations"]] == [
        None,
        "2023-11-14T22:13:20.123457Z",
        "2023-11-14T22:13:20Z",
    ]
    assert decode_table(body).held == held


@pytest.mark.parametrize("number", range(0, 1_000_000, 99_991))
def test_every_microsecond_comes_back_as_the_number_it_was(number: int) -> None:
    since = round(1_700_000_000 + number / 1e6, 6)
    assert decode_table(encoded(None, Held("n", BASE, 26, COOLING, since))).held[0].since == since


@pytest.mark.parametrize("since", [None, "", "yesterday"])
def test_a_time_that_cannot_be_read_is_none(since: str | None) -> None:
    extra = {} if since is None else {"since": since}
    view = decode_table(stored(entry("n1", "10.40.0.0/26", state=COOLING, **extra)))
    assert view.held == (Held("n1", BASE, 26, COOLING, None),)


def test_times_of_other_zones_and_precisions_are_understood() -> None:
    texts = ["2023-11-14T23:13:20+01:00", "2023-11-14T22:13:20.000000999Z", "2023-11-14T22:13:20"]
    for text in texts:
        view = decode_table(stored(entry("n", "10.40.0.0/26", state=DRAINING, since=text)))
        assert view.held[0].since == NOW


def test_a_new_table_says_all_that_a_restarted_controller_must_know() -> None:
    body = encoded(None, Held("n1", BASE, 26), network="lan", network_name="", name="lan-10")
    assert "resourceVersion" not in body["metadata"]
    assert body["spec"] == {"range": "10.40.0.0/24", "sliceSize": "/26", "network": "lan"}
    view = decode_table(body)
    assert (view.name, view.network, view.space) == ("lan-10", "lan", "")
    assert decode_table(encoded(None)).space == "blue"


def test_everything_unknown_goes_back_as_it_came() -> None:
    raw = stored(
        entry("n1", "10.40.0.0/26", note="kept"),
        entry("", "10.40.0.64/26"),
        metadata={"labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["e/f"]},
        spec={"sliceSize": "26", "future": {"x": 1}},
        status={"future": [1], "conditions": [{"type": "Odd", "status": "True", "note": "kept"}]},
    )
    before = copy.deepcopy(raw)
    body = encoded(decode_table(raw), Held("n1", BASE, 26))
    assert raw == before
    assert body["metadata"]["labels"] == {"a": "b", "whereabouts-fast.io/network": "blue"}
    assert body["metadata"]["annotations"] == {"c": "d"}
    assert body["metadata"]["finalizers"] == ["e/f"]
    assert body["metadata"]["resourceVersion"] == "7"
    assert "managedFields" not in body["metadata"]
    assert body["spec"]["future"] == {"x": 1}
    assert body["spec"]["sliceSize"] == "26"
    assert body["status"]["future"] == [1]
    assert body["status"]["conditions"][0] == {"type": "Odd", "status": "True", "note": "kept"}
    assert body["status"]["allocations"] == [
        entry("n1", "10.40.0.0/26", note="kept", state="Active")
    ]


def test_a_change_of_size_or_range_is_recorded() -> None:
    body = encoded(decode_table(stored()), size=27, cidr="10.40.0.0/23")
    assert body["spec"]["sliceSize"] == "/27"
    assert body["spec"]["range"] == "10.40.0.0/23"


def test_the_same_again_differs_in_nothing_even_later() -> None:
    existing = decode_table({**encoded(None, Held("n1", BASE, 26))})
    assert not differs(existing, encoded(existing, Held("n1", BASE, 26), now=NOW + 60))
    assert differs(existing, encoded(existing, Held("n2", BASE, 26)))
    assert differs(existing, encoded(existing, Held("n1", BASE, 26), waiting=1))
    assert differs(decode_table(stored()), encoded(decode_table(stored())))


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    first = encoded(None)["status"]["conditions"][0]
    assert first["lastTransitionTime"] == "2023-11-14T22:13:20Z"
    existing = decode_table(stored(status={"conditions": [first]}))
    told = Condition("Ready", "True", "Served", "5 of 5 nodes")
    (same,) = encoded(existing, conditions=[told], now=NOW + 60)["status"]["conditions"]
    assert same["lastTransitionTime"] == first["lastTransitionTime"]
    assert (same["message"], same["observedGeneration"]) == ("5 of 5 nodes", 3)
    ended = Condition("Ready", "False", "Waiting")
    (other,) = encoded(existing, conditions=[ended], now=NOW + 60)["status"]["conditions"]
    assert other["lastTransitionTime"] == "2023-11-14T22:14:20Z"


@pytest.mark.parametrize("bad", ["999.0.0.0/26", "fd10::/120", "10.40.0.0/33"])
def test_an_entry_that_cannot_be_read_is_named_and_kept(bad: str) -> None:
    raw = stored(entry("n1", "10.40.0.0/26"), entry("n2", bad))
    view = decode_table(raw)
    assert view.held == (Held("n1", BASE, 26),)
    assert view.problem.startswith(f'status.allocations[1].sliceRange "{bad}"')
    assert entry("n2", bad) in encoded(view, *view.held)["status"]["allocations"]


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (stored(spec={"range": "blue"}), 'spec.range "blue"'),
        (stored(spec={"sliceSize": "/x"}), 'spec.sliceSize "/x"'),
        (stored(entry("n1", "10.40.0.0/26"), {"nodeName": 7}), "status.allocations.1.nodeName 7"),
        ({"metadata": {"name": "blue"}}, 'spec.range ""'),
    ],
)
def test_an_unreadable_table_says_so_and_keeps_its_name(raw: dict[str, Any], problem: str) -> None:
    view = decode_table(raw)
    assert view.name == "blue"
    assert view.problem.startswith(problem)


def test_entries_of_a_table_that_cannot_be_decoded_are_not_lost() -> None:
    raw = stored(entry("n1", "10.40.0.0/26"), {"nodeName": 7, "sliceRange": "10.40.0.64/26"})
    assert len(decode_table(raw).unreadable) == 2


def test_a_slice_listed_twice_for_a_node_counts_once() -> None:
    view = decode_table(stored(entry("n1", "10.40.0.0/26"), entry("n1", "10.40.0.0/26")))
    assert view.held == (Held("n1", BASE, 26),)


def test_a_table_over_the_limit_is_refused_with_its_size() -> None:
    held = [Held("n" * 200 + str(at), BASE + at, 32) for at in range(5000)]
    with pytest.raises(TableTooLargeError, match=r"5000 slices make blue .* over the limit"):
        encoded(None, *held)


def test_more_free_slices_than_the_schema_can_count_are_capped() -> None:
    body = encoded(None, figures=Figures(0, 0, 0, 1 << 64))
    assert body["status"]["free"] == (1 << 63) - 1
