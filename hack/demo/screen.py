"""What the demo prints: headings, slices as bars, tables. Values in, text out."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

BAR = 28
COLOURS = {"Active": "32", "Draining": "33", "Cooling": "36", "dim": "2", "bold": "1", "bad": "31"}


@dataclass(frozen=True)
class SliceRow:
    """One held slice: who holds it, how many of its usable addresses are given."""

    node: str
    cidr: str
    state: str
    used: int
    size: int


def paint(text: str, colour: str) -> str:
    """Colour text, on a terminal only and never when NO_COLOR is set."""
    if not sys.stdout.isatty() or "NO_COLOR" in os.environ:
        return text
    return f"\033[{COLOURS[colour]}m{text}\033[0m"


def heading(text: str) -> str:
    """Set a step of the story apart."""
    return "\n" + paint(f"== {text}", "bold")


def bar(used: int, size: int) -> str:
    """Draw use of a slice; one address already shows, and only a full slice looks full."""
    filled = 0 if not used else max(1, min(BAR - (used < size), round(used * BAR / size)))
    return "█" * filled + "░" * (BAR - filled)


def slice_rows(rows: Sequence[SliceRow]) -> Iterable[str]:
    """Render slices in the order given, columns aligned over all of them."""
    node_width = max((len(row.node) for row in rows), default=0)
    cidr_width = max((len(row.cidr) for row in rows), default=0)
    for row in rows:
        counts = f"{row.used:>3} used, {row.size - row.used:>3} free"
        shown = paint(bar(row.used, row.size), row.state)
        state = paint(row.state, row.state)
        yield f"   {row.node:<{node_width}}  {row.cidr:<{cidr_width}}  {shown}  {counts}  {state}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """Render a table with left-aligned columns as wide as their widest cell."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    for number, row in enumerate([head, *rows]):
        line = "   " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield paint(line.rstrip(), "dim") if number == 0 else line.rstrip()
