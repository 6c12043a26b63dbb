"""What overlapping pools still need before another one opens."""

from __future__ import annotations

from dataclasses import replace

from whereabouts_fast.ipam import address
from whereabouts_fast.ipam.overlap import Holder, Network, Pool, plan

ONE, TWO = Holder("t/one", "c1", "net1"), Holder("t/two", "c2", "net1")


def pool(name: str, cidr: str, node: str = "", network: str = "", *held: int) -> Pool:
    version, base, prefix = address.parse_cidr(cidr)
    return Pool(
        name, version, base, prefix, node, network or name, holders={base + n: ONE for n in held}
    )


def network(name: str, cidr: str, shared: str = "", *, checked: bool = True) -> Network:
    found = pool("", cidr)
    return Network(name, found.version, found.base, found.last, shared, checked)


WIDE = pool("wide", "10.0.0.0/16")
SLICE = pool("slice", "10.0.0.0/26", "n1", "s", 5)
APART = pool("apart", "10.1.0.0/24")


def marked(*pools: Pool) -> list[Pool]:
    return [replace(one, marked=True) for one in pools]


def test_what_overlaps_nothing_opens_at_once_and_unmarked() -> None:
    found = plan("", [SLICE, WIDE, APART], [], ["apart", "wide"])
    assert found.opens == ("apart",)
    assert found.marks == ("slice", "wide")
    assert (found.reserve, sorted(found.concerned)) == ((), ["slice", "wide"])


def test_addresses_in_use_are_reserved_before_the_other_opens() -> None:
    found = plan("", marked(SLICE, WIDE), [], ["wide"])
    assert (found.marks, found.reserve) == ((), (("10.0.0.5", ONE),))
    assert found.opens == ("wide",)
    named = plan("blue", marked(SLICE, WIDE), [], ["wide"])
    assert named.reserve == (("blue-10.0.0.5", ONE),)
    assert plan("", marked(SLICE, WIDE), [], ["wide"], {"10.0.0.5": ONE}).reserve == ()
    # Old versions recorded the pod alone.
    assert plan("", marked(SLICE, WIDE), [], ["wide"], {"10.0.0.5": Holder("t/one")}).opens


def test_a_reservation_of_somebody_else_keeps_the_pool_shut() -> None:
    found = plan("", marked(SLICE, WIDE), [], ["wide"], {"10.0.0.5": TWO})
    assert (found.reserve, found.opens) == ((), ())
    (blocked,) = found.blocked
    assert (blocked.holder, blocked.other) == (ONE, TWO)


def test_an_address_that_two_had_before_is_reserved_once() -> None:
    both = [*marked(SLICE, replace(WIDE, holders={WIDE.base + 5: TWO}))]
    assert plan("", both, []).reserve == (("10.0.0.5", ONE),)
    for holder in (ONE, TWO):
        found = plan("", both, [], (), {"10.0.0.5": holder})
        assert (found.reserve, found.blocked) == ((), ())


def test_a_mark_about_to_be_lifted_is_no_mark() -> None:
    found = plan("", [replace(p, lifting=True) for p in marked(SLICE, WIDE)], [], ["wide"])
    assert (found.marks, found.opens) == (("slice", "wide"), ())


def test_marks_without_need_are_told_unless_the_space_is_in_doubt() -> None:
    unsure = replace(pool("blue-10.9.0.0-24", "10.9.0.0/24"), exact=False)
    assert plan("", marked(APART, unsure), []).needless == ("apart",)
    assert plan("", [APART], []).needless == ()


def test_who_does_not_want_the_check_pays_only_for_his_own_change_of_mode() -> None:
    careless = [network("s", "10.0.0.0/24", checked=False), network("wide", "10.0.0.0/16", "wide")]
    assert plan("", [SLICE, WIDE], careless, ["wide"]).opens == ("wide",)
    assert plan("", [SLICE, replace(WIDE, network="s")], careless[:1], ["wide"]).opens == ()
    # What nobody asks for any more has pods that somebody wanted apart.
    assert plan("", [SLICE, WIDE], [], ["wide"]).opens == ()
    # A writer that did not say whose the pool is may have meant any.
    assert plan("", [SLICE, replace(WIDE, network="")], careless[:1], ["wide"]).opens == ()


def test_families_and_neighbours_do_not_overlap() -> None:
    six = pool("six", "fd10::/112")
    near = [pool(f"p{n}", f"10.0.{n}.0/24") for n in range(4)]
    assert plan("", [six, *near, replace(near[0], name="same")], []).marks == ("p0", "same")
