"""The reflector's transition table by itself: no client, no loop, time as a number."""

import pytest

from whereabouts_fast.kube import errors
from whereabouts_fast.kube.reflector import TABLE, End, Machine, Step, judge


def always(value: float) -> Machine:
    return Machine(lambda: value)


def step_of(machine: Machine) -> Step:
    return machine.step


def drive(machine: Machine, *ends: End, now: float = 0.0) -> list[float]:
    return [machine.advance(end, now) for end in ends]


def test_the_table_knows_every_end_that_each_step_can_have() -> None:
    stream = set(End) - {End.REFUSED}
    pages = {End.SYNCED, End.EXPIRED, End.BROKEN}
    watch = set(End) - {End.SYNCED, End.UNSUPPORTED}
    assert set(TABLE) == (
        {(Step.STREAM, end) for end in stream}
        | {(Step.PAGES, end) for end in pages}
        | {(Step.WATCH, end) for end in watch}
    )


def test_every_step_leads_to_a_watch_again_and_no_circle_is_without_a_pause() -> None:
    unpaused = {step: {TABLE[step, end][0] for end in End if (step, end) in TABLE} for step in Step}
    assert all(Step.WATCH in unpaused[step] or Step.STREAM in unpaused[step] for step in Step)
    for step in Step:
        # Follow only what goes on at once, leaving out progress and the server's own good end.
        seen = {step}
        frontier = [step]
        while frontier:
            here = frontier.pop()
            for (start, end), (target, pause) in TABLE.items():
                if start is here and not pause and end not in (End.SYNCED, End.CLOSED):
                    assert target not in seen, f"{start.name} {end.name} {target.name}"
                    seen.add(target)
                    frontier.append(target)


def test_a_list_by_stream_becomes_the_watch_without_a_pause() -> None:
    machine = always(1.0)
    assert drive(machine, End.SYNCED, End.CLOSED, End.CLOSED) == [0, 0, 0]
    assert step_of(machine) is Step.WATCH


def test_a_server_without_streaming_lists_is_asked_by_pages_and_later_again_by_stream() -> None:
    machine = always(1.0)
    assert drive(machine, End.UNSUPPORTED) == [0]
    assert step_of(machine) is Step.PAGES
    drive(machine, End.SYNCED, End.EXPIRED)
    assert step_of(machine) is Step.STREAM


def test_an_expired_continue_token_begins_the_pages_anew() -> None:
    machine = always(1.0)
    drive(machine, End.UNSUPPORTED, End.EXPIRED)
    assert step_of(machine) is Step.PAGES


@pytest.mark.parametrize("end", [End.BROKEN, End.SHORT, End.SILENT])
def test_a_watch_that_fails_resumes_after_a_pause(end: End) -> None:
    machine = always(1.0)
    assert drive(machine, End.SYNCED, end) == [0, 0.8]
    assert step_of(machine) is Step.WATCH


@pytest.mark.parametrize("end", [End.EXPIRED, End.REFUSED])
def test_a_version_that_the_server_does_not_have_is_listed_again(end: End) -> None:
    machine = always(1.0)
    drive(machine, End.SYNCED, end)
    assert step_of(machine) is Step.STREAM


def test_pauses_double_up_to_the_ceiling_with_full_jitter() -> None:
    longest = drive(always(1.0), *[End.BROKEN] * 8)
    assert longest == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30]
    assert drive(always(0.5), *[End.BROKEN] * 3) == [0.4, 0.8, 1.6]
    assert drive(always(0.0), *[End.BROKEN] * 3) == [0, 0, 0]


def test_two_minutes_of_health_reset_the_pauses_and_less_does_not() -> None:
    machine = always(1.0)
    drive(machine, *[End.BROKEN] * 5, now=100.0)
    assert machine.advance(End.BROKEN, 219.0) == 25.6
    assert machine.advance(End.BROKEN, 219.0 + 120.0) == 0.8


def test_years_of_failures_are_no_overflow() -> None:
    machine = always(1.0)
    pauses = {machine.advance(End.BROKEN, 0.0) for _ in range(5000)}
    assert max(pauses) == 30


@pytest.mark.parametrize(
    ("step", "error", "end"),
    [
        (Step.STREAM, errors.Invalid(422, "Invalid", ""), End.UNSUPPORTED),
        (Step.STREAM, errors.ApiError(400, "BadRequest", ""), End.UNSUPPORTED),
        (Step.STREAM, errors.Unreachable("x", ""), End.BROKEN),
        (Step.STREAM, errors.ServerError(500, "InternalError", ""), End.BROKEN),
        (Step.PAGES, errors.Gone(410, "Expired", ""), End.EXPIRED),
        (Step.PAGES, errors.ServerError(500, "InternalError", ""), End.BROKEN),
        (Step.WATCH, errors.Gone(410, "Expired", ""), End.EXPIRED),
        (Step.WATCH, errors.Silent("Silent", ""), End.SILENT),
        (Step.WATCH, errors.TooManyRequests(429, "TooManyRequests", ""), End.BROKEN),
        (Step.WATCH, errors.ServerError(503, "ServiceUnavailable", ""), End.BROKEN),
        (Step.WATCH, errors.Unreachable("x", ""), End.BROKEN),
        (Step.WATCH, errors.ServerError(504, "Timeout", "Too large resource version"), End.REFUSED),
        (Step.WATCH, errors.ApiError(400, "BadRequest", "invalid version"), End.REFUSED),
    ],
)
def test_errors_are_judged_by_what_was_being_done(
    step: Step, error: errors.ApiError, end: End
) -> None:
    assert judge(step, error) is end
    assert (step, end) in TABLE
