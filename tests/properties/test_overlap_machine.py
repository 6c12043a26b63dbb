"""No order of NADs, pods, controllers and restarts gives an address to two pools."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.properties.overlap_model import history

HISTORIES = 250


@given(st.binary(max_size=600))
def test_no_history_gives_an_address_twice(data: bytes) -> None:
    for store in history(data):
        assert store.duplicates() == {}


def test_no_long_history_gives_an_address_twice() -> None:
    random = Random(7)
    opened = given_out = 0
    for number in range(HISTORIES):
        data = random.randbytes(1000)
        for store in history(data):
            assert store.duplicates() == {}, f"history {number}"
        opened += sum(not p.closed and p.marked for p in store.pools.values())
        given_out += sum(len(p.entries) for p in store.pools.values() if p.marked)
    # The histories are about what they say: pools do open, marked, and give addresses.
    assert opened > HISTORIES / 2
    assert given_out > HISTORIES / 5
