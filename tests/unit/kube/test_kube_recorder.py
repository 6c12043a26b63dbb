"""How many events are written over time, with a clock that jumps and a server that only counts.

The server lies: it takes everything, or refuses everything with one error. What a real one takes
is in tests/integration.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import pytest

from tests.unit.kube.jumping import run
from whereabouts_fast.kube import errors
from whereabouts_fast.kube.client import Client, Object
from whereabouts_fast.kube.events import Recorder
from whereabouts_fast.kube.resource import Resource


class Counting:
    """Notes what is written and when."""

    def __init__(self, refusal: errors.ApiError | None = None) -> None:
        self.refusal = refusal
        self.created: list[Object] = []
        self.patched: list[Object] = []
        self.attempts: list[float] = []

    def _try(self) -> None:
        self.attempts.append(asyncio.get_running_loop().time())
        if self.refusal:
            raise self.refusal

    async def create(self, resource: Resource, namespace: str, body: Object) -> Object:
        self._try()
        self.created.append(body)
        return body

    async def patch(
        self, resource: Resource, namespace: str, name: str, ops: Sequence[Object], **_: Any
    ) -> Object:
        self._try()
        self.patched.append(ops[0]["value"])
        return {}


def subject(name: str = "a") -> Object:
    return {"kind": "Node", "name": name, "uid": name}


def record(
    server: Counting,
    happen: Callable[[Recorder], Awaitable[None]],
    *,
    after: float = 1000.0,
    **options: Any,
) -> Recorder:
    """Let `happen` happen while a recorder writes, and so many seconds after it."""

    async def main() -> Recorder:
        recorder = Recorder(cast(Client, server), "test", **options)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(recorder.run())
            await happen(recorder)
            await asyncio.sleep(after)
            task.cancel()
        return recorder

    return run(main())


def test_the_same_every_second_is_one_event_counted_up_now_and_then() -> None:
    server = Counting()

    async def happen(recorder: Recorder) -> None:
        for _ in range(100):
            recorder.event(subject(), "Warning", "Reason", "the same")
            await asyncio.sleep(1)

    recorder = record(server, happen)
    assert len(server.created) == 1
    assert len(server.patched) <= 10
    assert server.patched[-1]["count"] == 100
    assert recorder.dropped == 0


def test_messages_that_change_too_fast_are_dropped_but_never_the_last() -> None:
    server = Counting()

    async def happen(recorder: Recorder) -> None:
        for number in range(50):
            recorder.event(subject(), "Warning", "Waiting", f"{number} nodes wait")
            await asyncio.sleep(0.1)

    recorder = record(server, happen)
    assert [event["note"] for event in server.created] == ["0 nodes wait", "49 nodes wait"]
    assert recorder.dropped == 48


def test_many_objects_at_once_are_written_at_the_rate_of_the_bucket() -> None:
    server = Counting()

    async def happen(recorder: Recorder) -> None:
        for number in range(100):
            recorder.event(subject(f"n{number}"), "Normal", "Reason", "text")

    record(server, happen, burst=50, rate=5.0)
    assert len(server.created) == 100
    first = server.attempts[0]
    assert sum(at - first < 0.1 for at in server.attempts) == 50
    assert server.attempts[-1] - first == pytest.approx(10, abs=0.2)


def test_more_objects_than_are_kept_drop_the_oldest() -> None:
    server = Counting()

    async def happen(recorder: Recorder) -> None:
        for number in range(100):
            recorder.event(subject(f"n{number}"), "Normal", "Reason", "text")

    recorder = record(server, happen, keep=10)
    assert recorder.dropped == 90
    assert [event["regarding"]["name"] for event in server.created] == [
        f"n{number}" for number in range(90, 100)
    ]


@pytest.mark.parametrize(
    ("refusal", "attempts"),
    [
        (errors.Unreachable("x", "x"), 3),
        (errors.ServerError(500, "InternalError", "x"), 3),
        (errors.Invalid(422, "Invalid", "x"), 1),
        (errors.NotFound(404, "NotFound", "no such namespace"), 1),
    ],
)
def test_a_server_that_takes_no_events_is_asked_a_few_times_and_then_left_alone(
    refusal: errors.ApiError, attempts: int
) -> None:
    server = Counting(refusal)

    async def happen(recorder: Recorder) -> None:
        recorder.event(subject(), "Normal", "Reason", "text")

    recorder = record(server, happen)
    assert len(server.attempts) == attempts
    assert recorder.dropped == 1


def test_what_happens_during_a_failing_write_is_written_later() -> None:
    server = Counting(errors.Unreachable("x", "x"))

    async def happen(recorder: Recorder) -> None:
        recorder.event(subject(), "Normal", "Reason", "text")
        await asyncio.sleep(1)
        server.refusal = None
        recorder.event(subject(), "Normal", "Reason", "text")

    recorder = record(server, happen)
    (event,) = server.created
    assert event["series"]["count"] == 2
    assert recorder.dropped == 0
