"""What to do with pools so that they follow the slice table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whereabouts_fast.ipam.holdings import (
    ACTIVE,
    DRAINING,
    Action,
    Answer,
    Close,
    Confirm,
    Create,
    Delete,
    Held,
    Open,
    PoolSeen,
    key,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from whereabouts_fast.ipam.holdings import Key
    from whereabouts_fast.ipam.shares import Share
    from whereabouts_fast.ipam.space import Claim


class Steps:
    """Collects the actions of one plan, and which slices stay shut (`disputed`)."""

    def __init__(self, order: Mapping[str, int]) -> None:
        self._order = order
        self.disputed: list[Held] = []
        self._closes: list[Action] = []
        self._deletes: list[Action] = []
        self._confirms: list[Action] = []
        self._opens: list[Action] = []
        self._creates: list[Create] = []
        self._answers: list[Action] = []

    def follow(
        self,
        table: Iterable[Held],
        pools: Mapping[Key, PoolSeen],
        claim: Callable[[Held], Claim],
        disputes: set[Claim],
    ) -> None:
        """Have each entry's pool be as its state says."""
        for held in table:
            pool = pools.get(key(held))
            if held.state == ACTIVE:
                if pool is not None and (pool.leaving or not pool.closed):
                    continue
                if claim(held) in disputes:
                    self.disputed.append(held)
                elif pool is None:
                    self._creates.append(Create(*key(held)))
                else:
                    self._opens.append(Open(pool))
            elif pool is not None:
                self.retire(pool)
            elif held.state == DRAINING:
                self._confirms.append(Confirm(held))

    def retire(self, pool: PoolSeen) -> None:
        """Close a pool, or delete it once that is done and it is empty."""
        if not pool.closed:
            self._closes.append(Close(pool))
        elif pool.empty and not pool.leaving:
            self._deletes.append(Delete(pool))
        elif pool.want:
            self._closes.append(Close(pool))

    def answer(self, pool: PoolSeen, share: Share, refusal: str) -> None:
        """Answer what an open pool wants."""
        room = share.room()
        if room is not None:
            self._answers.append(Answer(pool, room.held))
        elif refusal:
            self._answers.append(Answer(pool, None, refusal))

    def all(self) -> tuple[Action, ...]:
        """Return the actions in the order in which they are done."""
        creates = sorted(self._creates, key=lambda one: (self._order[one.node], one.base))
        return (
            *self._closes,
            *self._deletes,
            *self._confirms,
            *self._opens,
            *creates,
            *self._answers,
        )
