"""An event loop whose clock jumps to the next timer when nothing else is left to do."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    """Turns every wait into a jump of the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise AssertionError("everything waits, and no timer is set: this would wait for ever")
        # A little more than asked for, or rounding could leave the timer just not due.
        self.now += timeout + 1e-9
        return []


class JumpingLoop(asyncio.SelectorEventLoop):
    """`loop.time` moves only when all tasks wait; then it moves at once. For code without I/O."""

    def __init__(self) -> None:
        self._jumping = _Selector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    def jump(self, seconds: float) -> None:
        """Let time pass in which nothing ran, as for a paused process."""
        self._jumping.now += seconds


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end; hours of sleep in it take no time."""
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(main)


def jump(seconds: float) -> None:
    """Let time pass at once in the running JumpingLoop."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, JumpingLoop)
    loop.jump(seconds)
