"""A full node and a controller that answers anything: an error in time, no made-up address."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.cni import hostile
from tests.unit.cni.hostile import Clock
from tests.unit.cni.test_hostile_calls import answers, hold, place, run, values
from whereabouts_fast.ipam import naming

TAKEN = {str(n): {"id": f"c-{n}", "podref": "a/b", "ifname": "net1"} for n in range(64)}
FULL = copy.deepcopy(hostile.POOL)
FULL["spec"]["allocations"] = TAKEN
NAMES = ("blue-n1-10.40.0.0-26", "blue-n1-10.40.0.64-26", "blue-n2-10.40.0.128-26", "../..", "")

texts = st.sampled_from(NAMES) | values
notes = st.dictionaries(
    st.sampled_from([naming.ANNOTATION_WANT, naming.ANNOTATION_MORE, naming.ANNOTATION_REFUSED]),
    texts,
    max_size=3,
)
replies = st.tuples(st.just("twisted"), st.just(("metadata", "annotations")), notes | values)


def test_an_honest_controller_that_says_nothing_is_waited_for_and_then_told_of() -> None:
    with place() as folder:
        called = run("ADD", hostile.configured(folder), [], pool=FULL)
        assert called.output[0]["code"] == 101
        assert 0 < called.seconds <= 6


@given(st.lists(replies | answers, max_size=12), st.sampled_from([0, 5, 3600]))
def test_a_hostile_controller(script: list[Any], wait: int) -> None:
    with place() as folder:
        config = hostile.configured(folder, {"wait_seconds": wait})
        hold("ADD", "1.1.0", run("ADD", config, script, Clock(), FULL))


@settings(max_examples=10)
@given(st.lists(replies, min_size=1, max_size=3))
def test_answers_without_end_are_left_at_the_deadline(script: list[Any]) -> None:
    """The same nonsense again and again, as long as anybody asks."""
    with place() as folder:
        config = hostile.configured(folder, {"wait_seconds": 3600})
        called = run("ADD", config, script * 400, Clock(), FULL)
        hold("ADD", "1.1.0", called)
