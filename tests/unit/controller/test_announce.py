"""Few events for many changes; nothing is left untold."""

from __future__ import annotations

import asyncio

from whereabouts_fast.controller.announce import Once, Reference, SliceEvents
from whereabouts_fast.controller.reasons import Reason

TABLE = {"kind": "NodeSlicePool", "name": "blue", "uid": "u"}


class Told:
    def __init__(self) -> None:
        self.notes: list[tuple[str, str]] = []
        self.more = asyncio.Event()

    def __call__(self, about: Reference, reason: Reason, message: str) -> None:
        self.notes.append((reason, message))
        self.more.set()

    async def next(self) -> None:
        async with asyncio.timeout(10):
            self.more.clear()
            await self.more.wait()


async def test_the_first_change_is_told_at_once_and_the_rest_together() -> None:
    told = Told()
    events = SliceEvents(told, pause=0.01)
    events.assigned(TABLE, {"s0": "n0"})
    for n in range(1, 9):
        events.assigned(TABLE, {f"s{n}": f"n{n}"})
    assert told.notes == [("NodeSliceAssigned", "Assigned slice s0 to n0")]
    await told.next()
    assert told.notes[1:] == [
        (
            "NodeSliceAssigned",
            "Assigned 8 slices: s1 to n1, s2 to n2, s3 to n3, s4 to n4, s5 to n5 and 3 more",
        )
    ]
    events.flush()


async def test_a_warning_waits_for_the_number_to_settle() -> None:
    told = Told()
    events = SliceEvents(told, settle=0.01, insist=0.01)
    for n in (1, 2, 3):
        events.exhausted(TABLE, "blue", f"{n} wait")
    assert told.notes == []
    await told.next()
    assert told.notes == [("NodeSlicesExhausted", "3 wait")]
    events.exhausted(TABLE, "blue", "4 wait")
    await told.next()
    assert told.notes[1:] == [("NodeSlicesExhausted", "4 wait")]
    events.flush()


async def test_a_warning_that_is_no_longer_true_is_withdrawn() -> None:
    told = Told()
    events = SliceEvents(told)
    events.exhausted(TABLE, "blue", "1 waits")
    events.satisfied("blue")
    events.flush()
    assert told.notes == []


async def test_the_end_of_a_term_tells_what_is_left() -> None:
    told = Told()
    events = SliceEvents(told)
    events.reclaimed(TABLE, {"s0": "n0"})
    events.reclaimed(TABLE, {"s1": "n1"})
    events.flush()
    assert [note for _, note in told.notes] == [
        "Reclaimed slice s0 of n0",
        "Reclaimed slice s1 of n1",
    ]


def test_a_statement_is_news_once() -> None:
    once = Once()
    first, second = (Reason.INVALID, "one"), (Reason.INVALID, "two")
    assert once.news("u", frozenset([first])) == {first}
    assert once.news("u", frozenset([first])) == set()
    assert once.news("u", frozenset([first, second])) == {second}
    assert once.news("u", frozenset()) == set()
    assert once.news("u", frozenset([first])) == {first}
    once.keep(lambda uid: uid != "u")
    assert once.news("u", frozenset([first])) == {first}
