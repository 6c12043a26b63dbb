"""Writes those pages of docs/reference that say what the code says: `make reference`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from whereabouts_fast.controller.conditions import MEANINGS
from whereabouts_fast.controller.reasons import Reason
from whereabouts_fast.ipam.findings import REASONS
from whereabouts_fast.observability.metrics import Metrics
from whereabouts_fast.settings import ControllerSettings, describe

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
_MADE = "Made from the code by `make reference`; a test compares them."


def settings() -> str:
    """Return the page of all settings."""
    rows = [
        (
            f"`{one.flag}`",
            f"`{one.variable}`",
            f"`{one.default}`" if one.default else "",
            " / ".join(one.choices) or one.unit,
            one.reason,
        )
        for one in describe(ControllerSettings).values()
    ]
    return _page(
        "Settings",
        "A flag goes before its variable, and both before the default; an empty variable counts as"
        " absent.",
        "## whereabouts-fast controller",
        _table(("Flag", "Environment", "Default", "Unit or choices", "Meaning"), rows),
    )


def events() -> str:
    """Return the page of all events and conditions."""
    told = [(f"`{one}`", one.type, one.about, one.told_when) for one in Reason]
    types = [(f"`{type_}`", meaning) for type_, (meaning, _) in MEANINGS.items()]
    reasons = [
        (f"`{type_}`", status, f"`{reason}`", meaning)
        for type_, (_, found) in MEANINGS.items()
        for reason, (status, meaning) in found.items()
    ]
    findings = [(f"`{name}`", severity, text) for name, (severity, text) in REASONS.items()]
    return _page(
        "Events and conditions",
        "## Events",
        "`events.k8s.io/v1`, by `whereabouts-fast-controller`, in the namespace of the object that"
        " they are about.",
        _table(("Reason", "Type", "About", "Told when"), told),
        "## Conditions of a NodeSlicePool",
        "With reason, message, observedGeneration and lastTransitionTime. A network without slices"
        " has no NodeSlicePool: of it tell events about its NetworkAttachmentDefinitions, and"
        " [metrics](metrics.md).",
        _table(("Type", "True means"), types),
        _table(("Type", "Status", "Reason", "Meaning"), reasons),
        "## Findings",
        "What tables, pools and reservations may disagree about, as `Consistent` says and the"
        " metric `whereabouts_fast_inconsistencies` counts. An error is what only a person can end,"
        " or what may cost a pod its address.",
        _table(("Reason", "Severity", "Meaning"), findings),
    )


def metrics() -> str:
    """Return the page of all metrics."""
    rows = []
    # The library keeps to itself what it was told of labels.
    for collector in Metrics().registry._collector_to_names:  # noqa: SLF001
        for family in getattr(collector, "describe", tuple)():
            labels = getattr(collector, "_labelnames", ()) or getattr(family, "_labelnames", ())
            name = family.name + ("_total" if family.type == "counter" else "")
            shown = ", ".join(f"`{label}`" for label in labels)
            rows.append((f"`{name}`", family.type, shown, family.documentation))
    rows.sort()
    return _page(
        "Metrics",
        "Served at `/metrics`. Names without the prefix `whereabouts_fast_` are those of client-go;"
        " `process_*` is there too. Series of networks that are gone are gone.",
        _table(("Name", "Type", "Labels", "Meaning"), rows),
    )


PAGES = {"settings.md": settings, "events.md": events, "metrics.md": metrics}


def _page(title: str, *parts: str) -> str:
    return "\n\n".join((f"# {title}", _MADE, *parts)) + "\n"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |".replace("|  |", "| |") for cells in lines)


def main() -> int:
    """Write all pages."""
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
        print(f"docs/reference/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
