"""Which address an ADD tries: the lowest free one that has cooled, and another after a conflict."""

from __future__ import annotations

from cni import hints, turns
from whereabouts_fast.ipam import address, pool
from whereabouts_fast.ipam.netconf import Network

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FIRST_ONES = 32  # free addresses that writers who meet spread over


class Choice:
    """One attachment's choice; `asked` is the only address that will do.

    `elsewhere` maps pool -> offset -> whose it is: what an overlapping network has reserved.
    """

    __slots__ = ("_asked", "_network", "elsewhere")

    def __init__(self, network: Network, asked: int | None) -> None:
        self._network = network
        self._asked = asked
        self.elsewhere: dict[str, dict[int, str]] = {}

    def usable(self, one: hints.Pool, offset: int) -> bool:
        """Tell whether this attachment may have an address, if it is its own or free."""
        window = one.window(self._network.range)
        if window is None or not window.usable(window.base + offset):
            return False
        return self._asked is None or self._asked == window.base + offset

    def open_to_us(self, one: hints.Pool, offset: int) -> bool:
        """Tell whether an older entry of the same pod may be taken over."""
        return not (one.closed or self._is_elsewhere(one, offset)) and self.usable(one, offset)

    def free(self, pools: list[hints.Pool], conflicts: int) -> tuple[hints.Pool, int] | None:
        """Return the lowest free offset that has cooled, else the one released longest ago.

        After conflicts with other writers, one of the first free ones.
        """
        if self._asked is not None:
            return self._as_asked(pools, self._asked)
        oldest: tuple[float, hints.Pool, int] | None = None
        warm_since = hints.now() - self._network.address_cooldown
        for one in pools:
            window = None if one.closed else one.window(self._network.range)
            if window is None:
                continue
            one.freed = {o: at for o, at in one.freed.items() if at > warm_since}
            taken: dict[int, Any] = one.records
            elsewhere = self.elsewhere.get(one.name, {})
            if elsewhere or one.freed:
                taken = {**taken, **elsewhere, **one.freed}
            offset = pool.choose(window, taken)
            if offset is not None:
                return one, self._spread(one, window, taken, offset, conflicts)
            for warm, at in one.freed.items():
                usable = warm not in one.records and self.open_to_us(one, warm)
                if usable and (oldest is None or at < oldest[0]):
                    oldest = (at, one, warm)
        return None if oldest is None else (oldest[1], oldest[2])

    def lost(self, one: hints.Pool, offset: int, whose: str) -> None:
        """Note that an overlapping network has an address."""
        self.elsewhere.setdefault(one.name, {})[offset] = whose

    def reserved(self, pools: list[hints.Pool]) -> dict[int, str]:
        """Return the addresses that overlapping networks were found to have, and whose they are."""
        found = {}
        for one in pools:
            _, base, _ = address.parse_cidr(one.cidr)
            for offset, whose in self.elsewhere.get(one.name, {}).items():
                found[base + offset] = whose
        return found

    def _as_asked(self, pools: list[hints.Pool], asked: int) -> tuple[hints.Pool, int] | None:
        for one in pools:
            window = None if one.closed else one.window(self._network.range)
            if window is not None and window.base <= asked <= window.end:
                offset = asked - window.base
                held = offset in one.records or self._is_elsewhere(one, offset)
                return None if held else (one, offset)
        return None

    def _is_elsewhere(self, one: hints.Pool, offset: int) -> bool:
        return offset in self.elsewhere.get(one.name, ())

    def _spread(self, one: hints.Pool, window: Any, taken: Any, offset: int, conflicts: int) -> int:
        elsewhere = len(self.elsewhere.get(one.name, ()))
        if elsewhere:
            # The other network gives its lowest first as well: leave the crowd behind quickly.
            jump = int(turns.jitter() * min(2**elsewhere, window.size))
            return pool.choose(window, taken, start=offset + jump) or offset
        # Who loses has rivals that the lock does not know: do not all try the same again. In a
        # slice, where none are expected, only who loses twice.
        if conflicts > (0 if one.shared else 1):
            some = _FIRST_ONES if one.shared else min(2**conflicts, _FIRST_ONES)
            for _ in range(int((turns.jitter() - 0.5) * 2 * some)):
                higher = pool.choose(window, taken, start=offset + 1)
                if higher is None:
                    break
                offset = higher
        return offset
