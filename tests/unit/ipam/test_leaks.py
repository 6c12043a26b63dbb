"""Which of a pod's allocations are leaks, and for how long they are kept."""

from __future__ import annotations

import pytest

from whereabouts_fast.ipam import leaks
from whereabouts_fast.ipam.leaks import (
    FINISHED,
    GONE,
    RECREATED,
    SUPERSEDED,
    Allocation,
    Claim,
    Graces,
    Pod,
    Suspicion,
)

GRACES = Graces(usual=15, lost=300)


def claim(
    address: int, uid: str = "u", ifname: str = "net1", *, range_: str = "blue", pool: str = "p"
) -> Claim:
    entry = Allocation(pool, address, f"c{address}", "tenant/a", ifname, uid)
    return Claim(range_, address, entry)


def reasons(pod: Pod | None, *claims: Claim) -> dict[int, str]:
    return {entry.offset: why for entry, why in leaks.reasons(pod, claims).items()}


def pod(*addresses: int, uid: str = "u", **more: str | bool) -> Pod:
    return Pod("tenant/a", uid, addresses=addresses, **more)  # type: ignore[arg-type]


def test_without_a_pod_everything_is_a_leak() -> None:
    assert reasons(None, claim(5), claim(6, "")) == {5: GONE, 6: GONE}


def test_a_finished_pod_needs_nothing_whatever_its_annotation_says() -> None:
    """Case T31."""
    assert reasons(pod(5, finished=True), claim(5), claim(6)) == {5: FINISHED, 6: FINISHED}


def test_network_status_keeps_what_it_names_whatever_else_differs() -> None:
    """Case T21."""
    assert reasons(pod(5), claim(5, "other", "net9")) == {}
    assert reasons(pod(), claim(5, "other")) == {5: RECREATED}


def test_a_uid_that_was_not_recorded_fits_every_pod() -> None:
    assert reasons(pod(), claim(5, "")) == {}


def test_a_mirror_pod_is_known_by_its_hash_too() -> None:
    """Case U1."""
    mirror = pod(hash="1f2e")
    assert reasons(mirror, claim(5, "1f2e"), claim(6, "u"), claim(7, "older")) == {7: RECREATED}


def test_one_interface_needs_one_address_of_a_range() -> None:
    assert reasons(pod(6), claim(5), claim(6)) == {5: SUPERSEDED}
    # Another slice of the same range is no other range.
    assert reasons(pod(6), claim(5, pool="q"), claim(6)) == {5: SUPERSEDED}


@pytest.mark.parametrize(
    "claims",
    [
        (claim(5), claim(6, ifname="net2")),
        (claim(5), claim(6, range_="red")),
        (claim(5), claim(6, "another-uid")),
        (claim(5),),
    ],
    ids=["interface", "range", "pod", "alone"],
)
def test_what_is_no_second_address_of_the_interface_is_kept(claims: tuple[Claim, ...]) -> None:
    assert 5 not in reasons(pod(6), *claims)


def test_nothing_is_superseded_before_network_status_names_an_address() -> None:
    assert reasons(pod(), claim(5), claim(6)) == {}
    assert reasons(pod(77), claim(5), claim(6)) == {}
    assert reasons(pod(5, 6), claim(5), claim(6)) == {}


def test_an_entry_without_an_interface_may_be_of_any() -> None:
    assert reasons(pod(6), claim(5, ifname=""), claim(6)) == {5: SUPERSEDED}
    assert reasons(pod(5, 6), claim(5, ifname=""), claim(6, ifname="")) == {}


def test_the_grace_begins_with_the_first_live_look() -> None:
    one = Suspicion(GONE, look=1.0)
    one = one.confirm(GONE, 50.0, GRACES.after(GONE, node_lost=False))
    assert one.look == 65.0
    # The node is lost by now, so it is not over; seen from the first look, not from this one.
    one = one.confirm(RECREATED, 65.0, GRACES.after(RECREATED, node_lost=True))
    assert (one.why, one.look) == (RECREATED, 350.0)
    assert one.confirm(GONE, 350.0, GRACES.after(GONE, node_lost=True)).look == 350.0


def test_a_pod_that_goes_after_its_address_was_superseded_has_its_own_grace() -> None:
    one = Suspicion(SUPERSEDED, look=1.0)
    one = one.confirm(SUPERSEDED, 2.0, GRACES.after(SUPERSEDED, node_lost=False))
    assert one.look == 302.0
    assert one.confirm(GONE, 302.0, GRACES.after(GONE, node_lost=False)).look == 317.0


def test_only_whole_names_of_pods_are_judged() -> None:
    texts = ("tenant/a", "", "/", "tenant", "tenant/", "/a", "a/b/c")
    entries = [Allocation("p", number, "c", text) for number, text in enumerate(texts)]
    assert leaks.by_podref(entries) == {"tenant/a": [entries[0]]}
