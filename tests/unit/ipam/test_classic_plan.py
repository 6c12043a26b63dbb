"""What becomes of a pool that all nodes share, in each state it can be in."""

from __future__ import annotations

from itertools import product

import pytest

from whereabouts_fast.ipam.classic import SharedPlan, SharedSeen, plan

NONE: dict[str, frozenset[str]] = {}
SLICED = {"p": frozenset({"blue"})}


def steps(found: SharedPlan) -> str:
    names = ("create", "adopt", "close", "delete", "open")
    return " ".join(name for name in names if getattr(found, name) == ["p"])


def pool(
    network: str = "blue", *, attached: bool = True, closed: bool = False, empty: bool = False
) -> SharedSeen:
    return SharedSeen("p", network, attached, closed, empty)


def test_a_wanted_pool_is_created_and_opened_whatever_there_is() -> None:
    assert steps(plan({"p"}, NONE, ())) == "create open"
    assert steps(plan({"p"}, NONE, [pool()])) == ""
    assert steps(plan({"p"}, NONE, [pool(closed=True)])) == "open"
    assert steps(plan({"p"}, NONE, [pool("", attached=False)])) == "adopt"
    assert steps(plan({"p"}, NONE, [pool(attached=False, closed=True)])) == "adopt open"


def test_a_pool_nobody_asks_for_any_more_closes_and_goes_when_empty() -> None:
    assert steps(plan((), NONE, [pool()])) == "close"
    assert steps(plan((), NONE, [pool(closed=True)])) == ""
    assert steps(plan((), NONE, [pool(closed=True, empty=True)])) == "delete"


def test_a_pool_no_nad_ever_asked_for_is_opened_and_never_closed() -> None:
    for empty in (False, True):
        assert steps(plan((), NONE, [pool(attached=False, empty=empty)])) == ""
        assert steps(plan((), NONE, [pool(attached=False, closed=True, empty=empty)])) == "open"


@pytest.mark.parametrize(
    ("network", "empty", "expected"),
    [
        ("blue", False, "close"),
        ("blue", True, "close"),
        # Another network's, of a file on some node, or nobody can say whose: pods may need it.
        ("green", True, ""),
        ("", False, ""),
        ("", True, "close"),
    ],
)
def test_a_network_that_went_to_slice_mode_unseen_leaves_its_pool(
    network: str, empty: bool, expected: str
) -> None:
    assert steps(plan((), SLICED, [pool(network, attached=False, empty=empty)])) == expected


@pytest.mark.parametrize("wanted", [(), ("p",)])
@pytest.mark.parametrize("sliced", [NONE, SLICED])
def test_each_plan_comes_to_rest(
    wanted: tuple[str, ...], sliced: dict[str, frozenset[str]]
) -> None:
    either = (False, True)
    for network, attached, closed, empty in product(("", "blue"), either, either, either):
        there: SharedSeen | None = SharedSeen("p", network, attached, closed, empty)
        for _ in range(4):
            found = plan(wanted, sliced, [] if there is None else [there])
            if not steps(found):
                break
            if found.delete:
                there = None
                continue
            assert there is not None
            there = SharedSeen(
                "p",
                there.network or ("blue" if found.adopt else ""),
                there.attached or bool(found.adopt),
                (there.closed or bool(found.close)) and not found.open,
                empty,
            )
        else:
            pytest.fail(f"{(network, attached, closed, empty)} never rests")
