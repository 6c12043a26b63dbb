"""Allocations as anybody may have written them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from whereabouts_fast.ipam import pool

TEXTS = st.sampled_from(["", "a", "net1"]) | st.text(max_size=5)
KEYS = st.integers(-3, 2**128).map(str) | st.text("0123456789_ -x\u0663", max_size=4)
WELL_FORMED = st.fixed_dictionaries(
    {"id": TEXTS, "podref": TEXTS}, optional={"ifname": TEXTS, "uid": TEXTS, "node": TEXTS}
)
MALFORMED = (
    st.none()
    | st.integers()
    | st.dictionaries(
        st.sampled_from(["id", "podref", "ifname", "uid", "node"]),
        st.none() | st.integers() | TEXTS,
    )
)


@given(st.dictionaries(KEYS, WELL_FORMED | MALFORMED))
def test_every_decimal_key_takes_its_address_however_its_entry_looks(
    raw: dict[str, object],
) -> None:
    decoded = pool.decode(raw)
    assert {int(key) for key in raw if key.isdecimal() and key.isascii()} <= set(decoded)
    assert pool.offsets(raw) == set(decoded)


@given(st.none() | st.integers() | st.text() | st.lists(st.text()))
def test_allocations_that_are_no_object_hold_nothing(raw: object) -> None:
    assert pool.decode(raw) == {}
    assert pool.offsets(raw) == set()


@given(WELL_FORMED)
def test_an_entry_is_written_as_it_was_read_without_absent_texts(raw: dict[str, str]) -> None:
    (entry,) = pool.decode({"7": raw}).values()
    required = ("id", "podref")
    assert entry.encode() == {k: v for k, v in raw.items() if v or k in required}
