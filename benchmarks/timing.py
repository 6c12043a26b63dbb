"""Times whole processes side by side: in turns, so that what slows the machine slows them all."""

from __future__ import annotations

import os
import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

Turn = Callable[[int], Mapping[str, float]]
"""One subject's turn: number of the round -> a figure by name of what was measured."""


class RunError(Exception):
    """A timed process failed, so its time means nothing."""


class Command(NamedTuple):
    """One process to be run: arguments (the first a path), standard input, expected status."""

    arguments: Sequence[str | Path]
    environment: Mapping[str, str] = {}
    stdin: bytes = b""
    status: int = 0


class Ran(NamedTuple):
    """A process that has ended: its wall time in seconds and what it wrote on its output."""

    seconds: float
    output: bytes


class _Process:
    """A process that has been started; its streams are files in memory, so it never blocks."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._streams = [os.memfd_create("stream", os.MFD_CLOEXEC) for _ in range(3)]
        os.pwrite(self._streams[0], command.stdin, 0)
        actions = [(os.POSIX_SPAWN_DUP2, from_, to) for to, from_ in enumerate(self._streams)]
        arguments = [str(argument) for argument in command.arguments]
        self._begin = time.perf_counter()
        self.pid = os.posix_spawn(
            arguments[0], arguments, dict(command.environment), file_actions=actions
        )

    def end(self) -> Ran:
        """Wait for its end. Raises RunError."""
        _, ended = os.waitpid(self.pid, 0)
        seconds = time.perf_counter() - self._begin
        output, errors = (os.pread(fd, os.fstat(fd).st_size, 0) for fd in self._streams[1:])
        for fd in self._streams:
            os.close(fd)
        status = os.waitstatus_to_exitcode(ended)
        if status != self._command.status:
            shown = " ".join(map(str, self._command.arguments))
            raise RunError(f"{shown} ended with status {status}: {output!r} {errors[-2000:]!r}")
        return Ran(seconds, output)


def run(command: Command) -> Ran:
    """Run a process to its end. Raises RunError."""
    return _Process(command).end()


def peak_memory(command: Command) -> float:
    """Run a process and return the most memory that it had resident, in MB. Raises RunError.

    Looked at while it runs: what wait4 tells is at least what the starting process has.
    """
    peak = 0
    process = _Process(command)
    status = Path(f"/proc/{process.pid}/status")
    while found := re.search(rb"VmHWM:\s*(\d+)", status.read_bytes()):
        peak = int(found[1])
    process.end()
    return peak / 1024


def at_once(commands: Sequence[Command], in_flight: int) -> tuple[float, list[Ran]]:
    """Run processes, so many at a time; return the seconds until the last has ended, and all."""
    with ThreadPoolExecutor(in_flight) as threads:
        begin = time.perf_counter()
        ran = list(threads.map(run, commands))
        return time.perf_counter() - begin, ran


def interleaved(subjects: Sequence[Turn], rounds: int, *, warm_up: int = 3) -> dict[str, float]:
    """Let the subjects take turns, each round beginning with another; return medians."""
    figures: dict[str, list[float]] = {}
    for number in range(-warm_up, rounds):
        start = number % len(subjects)
        for turn in (*subjects[start:], *subjects[:start]):
            for name, figure in turn(number).items():
                if number >= 0:
                    figures.setdefault(name, []).append(figure)
    return {name: round(statistics.median(values), 2) for name, values in figures.items()}


def ratio(numerator: float | None, denominator: float | None) -> float | None:
    """Return how often one figure goes into the other, None where one was not taken."""
    return round(numerator / denominator, 2) if numerator and denominator else None
