"""All slice tables as last written or seen, by what work on one address space asks of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from whereabouts_fast.controller.latest import Latest
from whereabouts_fast.ipam.holdings import difference, key
from whereabouts_fast.resources.tables import TableView, decode_table

_SPACE = "space"


class TableMap(Latest[TableView]):
    """The tables of this process."""

    def __init__(self, cached: Callable[[str], TableView | None]) -> None:
        super().__init__(cached, decode_table, {_SPACE: lambda table: [table.space]})
        self._departures: Counter[str] = Counter()

    def of(self, space: str) -> list[TableView]:
        """Return the tables that say that they are of an address space."""
        return self.by_index(_SPACE, space)

    def spaces(self) -> set[str]:
        """Return the address spaces of all tables."""
        return set(self.named(_SPACE))

    def departures(self, name: str) -> int:
        """Return how many times entries have gone from the table of a name so far."""
        return self._departures[name]

    def _moved(self, old: TableView | None, new: TableView | None) -> None:
        if old is None:
            return
        gone, come = difference(old.held, () if new is None else new.held)
        if set(map(key, gone)) - set(map(key, come)):
            self._departures[old.name] += 1
