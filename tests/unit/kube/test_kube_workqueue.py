import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest

from tests.unit.kube.jumping import run
from whereabouts_fast.kube.errors import TooManyRequests
from whereabouts_fast.kube.workqueue import Done, RetryAfter, WorkQueue, run_workers

Reconcile = Callable[[str], Awaitable[Done | RetryAfter]]


def now() -> float:
    return asyncio.get_running_loop().time()


async def work_for(
    seconds: float,
    queue: WorkQueue[str],
    reconcile: Reconcile,
    *,
    workers: int = 1,
) -> list[tuple[str, Exception, float]]:
    """Run workers for so long; what went wrong."""
    errors: list[tuple[str, Exception, float]] = []
    try:
        async with asyncio.timeout(seconds):
            await run_workers(queue, reconcile, workers, lambda *told: errors.append(told))
    except TimeoutError:
        pass
    return errors


def test_many_adds_before_the_work_are_one() -> None:
    async def main() -> list[str]:
        queue: WorkQueue[str] = WorkQueue("q")
        for _ in range(5):
            queue.add("a")
        queue.add("b")
        seen: list[str] = []

        async def reconcile(key: str) -> Done:
            seen.append(key)
            return Done()

        await work_for(10, queue, reconcile, workers=3)
        return seen

    assert run(main()) == ["a", "b"]


def test_a_key_added_during_its_work_is_worked_once_more_and_never_twice_at_once() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue("q")
        busy: set[str] = set()
        rounds = 0

        async def reconcile(key: str) -> Done:
            nonlocal rounds
            assert key not in busy
            busy.add(key)
            rounds += 1
            if rounds == 1:
                for _ in range(3):
                    queue.add(key)
            await asyncio.sleep(5)
            busy.discard(key)
            return Done()

        queue.add("a")
        await work_for(100, queue, reconcile, workers=4)
        assert rounds == 2
        assert queue.idle

    run(main())


def test_different_keys_are_worked_side_by_side() -> None:
    async def main() -> float:
        queue: WorkQueue[str] = WorkQueue("q")
        began = now()
        ended: list[float] = []

        async def reconcile(key: str) -> Done:
            await asyncio.sleep(10)
            ended.append(now() - began)
            return Done()

        for key in "abcd":
            queue.add(key)
        await work_for(100, queue, reconcile, workers=4)
        assert len(ended) == 4
        return max(ended)

    assert run(main()) == pytest.approx(10, abs=0.01)


def test_failures_in_a_row_wait_twice_as_long_each_up_to_the_ceiling() -> None:
    async def main() -> tuple[list[float], list[float]]:
        queue: WorkQueue[str] = WorkQueue("q", base=1, ceiling=10, chance=lambda: 0.0)
        at: list[float] = []

        async def reconcile(key: str) -> Done:
            at.append(now())
            raise RuntimeError("no")

        queue.add("a")
        errors = await work_for(60, queue, reconcile)
        gaps = [second - first for first, second in pairwise(at)]
        return gaps, [pause for _, _, pause in errors]

    gaps, pauses = run(main())
    assert pauses[:6] == [1, 2, 4, 8, 10, 10]
    assert gaps[:6] == pytest.approx([1, 2, 4, 8, 10, 10], abs=0.01)


def test_one_key_s_failures_neither_stop_nor_slow_the_others() -> None:
    async def main() -> int:
        queue: WorkQueue[str] = WorkQueue("q", base=100)
        good = 0

        async def reconcile(key: str) -> Done | RetryAfter:
            nonlocal good
            if key == "bad":
                raise RuntimeError("no")
            good += 1
            return RetryAfter(1)

        queue.add("bad")
        queue.add("good")
        await work_for(9.5, queue, reconcile)
        return good

    assert run(main()) == 10


def test_success_forgets_the_failures() -> None:
    async def main() -> list[float]:
        queue: WorkQueue[str] = WorkQueue("q", base=1, chance=lambda: 0.0)
        outcomes = iter([False, False, True, False])

        async def reconcile(key: str) -> Done | RetryAfter:
            if not next(outcomes, True):
                raise RuntimeError("no")
            return RetryAfter(1)

        queue.add("a")
        return [pause for _, _, pause in await work_for(30, queue, reconcile)]

    assert run(main()) == [1, 2, 1]


def test_the_api_server_s_wish_to_wait_is_honoured() -> None:
    async def main() -> list[float]:
        queue: WorkQueue[str] = WorkQueue("q")

        async def reconcile(key: str) -> Done:
            raise TooManyRequests(429, "TooManyRequests", "busy", retry_after=7.0)

        queue.add("a")
        return [pause for _, _, pause in await work_for(10, queue, reconcile)]

    assert run(main()) == [7, 7]


def test_the_earliest_of_several_delays_counts() -> None:
    async def main() -> list[float]:
        queue: WorkQueue[str] = WorkQueue("q")
        began = now()
        at: list[float] = []

        async def reconcile(key: str) -> Done:
            at.append(now() - began)
            return Done()

        for seconds in (30, 10, 20):
            queue.add_after("a", seconds)
        await work_for(100, queue, reconcile)
        return at

    assert run(main()) == pytest.approx([10], abs=0.01)


def test_a_wish_for_at_once_during_the_work_is_not_lost() -> None:
    async def main() -> int:
        queue: WorkQueue[str] = WorkQueue("q")
        rounds = 0

        async def reconcile(key: str) -> Done | RetryAfter:
            nonlocal rounds
            rounds += 1
            return RetryAfter(0) if rounds < 3 else Done()

        queue.add("a")
        await work_for(1, queue, reconcile)
        return rounds

    assert run(main()) == 3


def test_cancelled_workers_leave_no_timers_and_give_their_keys_back() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue("q")

        async def reconcile(key: str) -> Done:
            await asyncio.sleep(1000)
            return Done()

        queue.add("a")
        queue.add_after("b", 500)
        await work_for(1, queue, reconcile)
        assert queue.idle
        assert not queue._timers

    run(main())


def test_the_hook_hears_depth_waiting_and_working_time() -> None:
    heard: list[tuple[object, ...]] = []

    class Hook:
        def added(self, name: str, depth: int) -> None:
            heard.append(("added", name, depth))

        def started(self, name: str, depth: int, waited: float) -> None:
            heard.append(("started", depth, round(waited)))

        def finished(self, name: str, seconds: float) -> None:
            heard.append(("finished", round(seconds)))

        def retried(self, name: str) -> None:
            heard.append(("retried",))

    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue("q", hook=Hook(), base=100)
        queue.add("a")
        queue.add("b")

        async def reconcile(key: str) -> Done:
            await asyncio.sleep(3)
            if key == "b":
                raise RuntimeError("no")
            return Done()

        await work_for(20, queue, reconcile)

    run(main())
    assert heard == [
        ("added", "q", 1),
        ("added", "q", 2),
        ("started", 1, 0),
        ("finished", 3),
        ("started", 0, 3),
        ("retried",),
        ("finished", 3),
    ]
