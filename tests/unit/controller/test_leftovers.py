"""Which leases whereabouts made for slices, and whose they may have been."""

from __future__ import annotations

import pytest

from whereabouts_fast.controller.leftovers import _of_a_slice, slice_stems

HOLDER = {"holderIdentity": "tenant/p1"}


@pytest.mark.parametrize(
    ("name", "stems"),
    [
        ("n1-10.40.0.0-26", ["n1"]),
        ("blue-n-1.example-10.40.0.0-26", ["blue-n-1.example"]),
        ("n1-fd10---120", ["n1"]),
        ("net-abc-fd10---120", ["net", "net-abc"]),
        ("10.40.0.0-26", []),
        ("n1-10.40.0.7-26", []),
        ("n1-10.40.0.0-33", []),
        ("whereabouts", []),
        ("whereabouts-fast-controller", []),
        ("kube-scheduler", []),
        ("apiserver-7fbd5e4ef2-64", []),
        ("", []),
    ],
)
def test_a_range_at_the_end_of_a_name_is_recognised(name: str, stems: list[str]) -> None:
    assert slice_stems(name) == stems


@pytest.mark.parametrize("node", ["n1", "blue-n1", "n1.other"])
def test_a_lease_is_left_while_any_node_may_be_meant(node: str) -> None:
    name = "blue-n1-10.40.0.0-26"
    assert _of_a_slice(name, HOLDER, {"n2"}.__contains__)
    assert _of_a_slice(name, HOLDER, {node}.__contains__) == (node == "n1.other")
    assert not _of_a_slice("net-abc-fd10---120", HOLDER, {"abc"}.__contains__)


@pytest.mark.parametrize("holder", ["kube-scheduler_7f", "n1", "a/b/c", "A/b"])
def test_a_lease_that_no_pod_holds_is_somebody_elses(holder: str) -> None:
    assert not _of_a_slice("n1-10.40.0.0-26", {"holderIdentity": holder}, lambda _: False)


def test_a_lease_that_was_given_back_is_whereabouts_too() -> None:
    assert _of_a_slice("n1-10.40.0.0-26", {"holderIdentity": ""}, lambda _: False)
    assert _of_a_slice("n1-10.40.0.0-26", {}, lambda _: False)
