"""Times whole processes side by side: in turns, so that what slows the machine slows them all."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

Turn = Callable[[int], Mapping[str, float]]
"""One subject's turn: number of the round -> seconds by name of what was timed."""


class RunError(Exception):
    """A timed process failed, so its time means nothing."""


def process_seconds(
    arguments: Sequence[str | Path], environment: Mapping[str, str], stdin: bytes = b""
) -> float:
    """Run a process to its end and return the wall time in seconds. Raises RunError."""
    reader, writer = os.pipe()
    answer = os.memfd_create("answer", os.MFD_CLOEXEC)
    try:
        # Below a pipe's 64 kB, so it never blocks.
        os.write(writer, stdin)
        os.close(writer)
        actions = [(os.POSIX_SPAWN_DUP2, reader, 0)]
        actions += [(os.POSIX_SPAWN_DUP2, answer, stream) for stream in (1, 2)]
        command = [str(argument) for argument in arguments]
        begin = time.perf_counter()
        pid = os.posix_spawn(command[0], command, dict(environment), file_actions=actions)
        _, status = os.waitpid(pid, 0)
        seconds = time.perf_counter() - begin
        if status:
            said = os.pread(answer, 2000, 0).decode(errors="replace")
            raise RunError(f"{' '.join(command)} ended with status {status}: {said}")
        return seconds
    finally:
        os.close(reader)
        os.close(answer)


def interleaved(subjects: Sequence[Turn], rounds: int, *, warm_up: int = 3) -> dict[str, float]:
    """Let the subjects take turns, each round beginning with another; return medians in ms."""
    times: dict[str, list[float]] = {}
    for number in range(-warm_up, rounds):
        start = number % len(subjects)
        for turn in (*subjects[start:], *subjects[:start]):
            for name, seconds in turn(number).items():
                if number >= 0:
                    times.setdefault(name, []).append(seconds * 1000)
    return {name: round(statistics.median(values), 2) for name, values in times.items()}


def ratio(numerator: float | None, denominator: float | None) -> float | None:
    """Return how often one time goes into the other, None where one was not taken."""
    return round(numerator / denominator, 3) if numerator and denominator else None
