"""Events about slices, gathered so that a thousand new nodes make a handful of events.

The first change of a table is told at once; what follows within a few seconds is told together.
A warning is told when its facts have changed and settled, not at each sync.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from whereabouts_fast.controller.reasons import WARNING, Reason

_SHOWN = 5

Reference = Mapping[str, str]
Statement = tuple[Reason, str]
_Key = tuple[str, Reason]


class Tell(Protocol):
    """Writes one event; never raises."""

    def __call__(self, about: Reference, reason: Reason, message: str, /) -> None:
        """`about` is an object reference."""


@dataclass(slots=True)
class _Pending:
    about: Reference
    slices: dict[str, str] = field(default_factory=dict)
    message: str = ""


class SliceEvents:
    """Gathers what happened to each table; all times in seconds.

    `pause`: between two events of one kind about one table. `settle`: before the first warning, so
    that it names all nodes that wait when many come at once. `insist`: between two warnings.
    """

    def __init__(
        self, tell: Tell, *, pause: float = 5.0, settle: float = 1.0, insist: float = 30.0
    ) -> None:
        self._tell = tell
        self._pause = pause
        self._settle = settle
        self._insist = insist
        self._pending: dict[_Key, _Pending] = {}
        self._resting: dict[_Key, asyncio.TimerHandle] = {}

    def assigned(self, about: Reference, slices: Mapping[str, str]) -> None:
        """Tell that nodes got slices; `slices` maps CIDR to node."""
        self._gather(about, Reason.ASSIGNED, slices)

    def reclaimed(self, about: Reference, slices: Mapping[str, str]) -> None:
        """Tell that slices of former holders are free again; `slices` maps CIDR to node."""
        self._gather(about, Reason.RECLAIMED, slices)

    def released(self, about: Reference, addresses: Mapping[str, str]) -> None:
        """Tell that leaked addresses were released; `addresses` maps each to whose it was."""
        self._gather(about, Reason.RELEASED, addresses)

    def exhausted(self, about: Reference, table: str, message: str) -> None:
        """Warn that nodes wait for slices of a table; the latest message counts."""
        key = (table, Reason.EXHAUSTED)
        self._pending[key] = _Pending(about, message=message)
        if key not in self._resting:
            self._rest(key, self._settle)

    def spent(self, about: Reference, table: str, what: str, nodes: Mapping[str, str]) -> None:
        """Warn that nodes have no address left of what is called `what`; maps node to reason."""
        key = (table, Reason.SPENT)
        pending = self._pending.setdefault(key, _Pending(about))
        pending.slices.update(nodes)
        pending.message = what
        if key not in self._resting:
            self._rest(key, self._settle)

    def satisfied(self, table: str) -> None:
        """Withdraw a warning that was not told yet."""
        self._pending.pop((table, Reason.EXHAUSTED), None)

    def flush(self) -> None:
        """Tell all that is gathered now, at the end of the process."""
        for timer in self._resting.values():
            timer.cancel()
        self._resting.clear()
        for key in list(self._pending):
            self._say(key)

    def _gather(self, about: Reference, reason: Reason, slices: Mapping[str, str]) -> None:
        if not slices:
            return
        key = (about["uid"], reason)
        self._pending.setdefault(key, _Pending(about)).slices.update(slices)
        if key not in self._resting:
            self._say(key)
            self._rest(key, self._pause)

    def _rest(self, key: _Key, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._resting[key] = loop.call_later(seconds, self._rested, key)

    def _rested(self, key: _Key) -> None:
        del self._resting[key]
        if key in self._pending:
            self._say(key)
            self._rest(key, self._insist if key[1].type == WARNING else self._pause)

    def _say(self, key: _Key) -> None:
        pending, reason = self._pending.pop(key), key[1]
        if reason is Reason.EXHAUSTED:
            self._tell(pending.about, reason, pending.message)
        elif reason is Reason.SPENT:
            self._tell(pending.about, reason, _spent(pending.message, pending.slices))
        else:
            self._tell(pending.about, reason, _sentence(*_WORDS[reason], pending.slices))


def _spent(what: str, nodes: Mapping[str, str]) -> str:
    by_reason: dict[str, list[str]] = {}
    for node, reason in nodes.items():
        by_reason.setdefault(reason, []).append(node)
    parts = []
    for reason, names in by_reason.items():
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        parts.append(f"on {', '.join(names[:_SHOWN])}{more} ({reason})")
    return (
        f"{what} has no free address {', '.join(parts)}: widen the range, raise node_slice_max, or"
        " remove pods"
    )


# What was done, to what in singular and plural, and the word before whose it is.
_WORDS = {
    Reason.ASSIGNED: ("Assigned", "slice", "slices", "to"),
    Reason.RECLAIMED: ("Reclaimed", "slice", "slices", "of"),
    Reason.RELEASED: ("Released", "address", "addresses", "of"),
}


def _sentence(word: str, one: str, many: str, preposition: str, things: Mapping[str, str]) -> str:
    parts = [f"{thing} {preposition} {whose}" for thing, whose in list(things.items())[:_SHOWN]]
    more = len(things) - len(parts)
    count = one if len(things) == 1 else f"{len(things)} {many}:"
    return f"{word} {count} {', '.join(parts)}" + (f" and {more} more" if more else "")


class Once:
    """Lets a statement about an object pass when it is another than the last one about it."""

    def __init__(self) -> None:
        self._said: dict[str, frozenset[Statement]] = {}

    def news(self, uid: str, statements: frozenset[Statement]) -> frozenset[Statement]:
        """Return those of an object's present statements that it did not have before."""
        before = self._said.get(uid, frozenset())
        if statements:
            self._said[uid] = statements
        else:
            self._said.pop(uid, None)
        return statements - before

    def keep(self, alive: Callable[[str], bool]) -> None:
        """Forget the objects that are not there any more."""
        for uid in [uid for uid in self._said if not alive(uid)]:
            del self._said[uid]
