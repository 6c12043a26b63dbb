"""At most so many requests at once, and no failure hides another's work."""

from __future__ import annotations

import asyncio

import pytest

from whereabouts_fast.controller.bounded import each
from whereabouts_fast.kube.errors import ServerError


async def test_never_more_than_the_bound_are_under_way() -> None:
    now = most = 0

    async def work(_: int) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1

    assert await each(range(50), work, 4) == []
    assert most == 4


async def test_a_failed_request_does_not_stop_the_others() -> None:
    done: list[int] = []

    async def work(item: int) -> None:
        if item == 2:
            raise ServerError(500, "InternalError", "no")
        done.append(item)

    (failure,) = await each(range(5), work, 2)
    assert failure.status == 500
    assert sorted(done) == [0, 1, 3, 4]


async def test_a_bug_stops_everything() -> None:
    async def work(item: int) -> None:
        raise ZeroDivisionError(item)

    with pytest.raises(ExceptionGroup):
        await each(range(5), work, 2)
