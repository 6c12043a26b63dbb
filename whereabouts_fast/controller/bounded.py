"""Many requests with a bound on how many are under way at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from whereabouts_fast.kube.errors import ApiError

T = TypeVar("T")


async def each(
    items: Iterable[T], work: Callable[[T], Awaitable[None]], limit: int
) -> list[ApiError]:
    """Do `work` for each item, at most `limit` at once, and return the failures.

    One failed request does not stop the others; any other exception does.
    """
    waiting = list(items)
    source = iter(waiting)
    failures: list[ApiError] = []

    async def take() -> None:
        for item in source:
            try:
                await work(item)
            except ApiError as error:
                failures.append(error)

    if len(waiting) == 1:
        await take()
        return failures
    async with asyncio.TaskGroup() as group:
        for _ in range(min(limit, len(waiting))):
            group.create_task(take())
    return failures
