"""No decision of the plugin hangs on the time of day, which may jump."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SHIM = [
    *sorted((ROOT / "cni").glob("*.py")),
    *(ROOT / f"whereabouts_fast/ipam/{name}.py" for name in ("address", "naming", "netconf")),
    *(ROOT / f"whereabouts_fast/ipam/{name}.py" for name in ("pool", "ranges")),
]
STEADY = {"monotonic", "monotonic_ns", "sleep"}
FOR_PEOPLE = {"gmtime", "strftime"}  # in the stamps of log lines


@pytest.mark.parametrize("path", SHIM, ids=lambda path: path.stem)
def test_only_the_clock_that_never_jumps_is_asked(path: Path) -> None:
    used = {
        node.attr
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "time"
    }
    assert used <= (STEADY | FOR_PEOPLE if path.stem == "log" else STEADY)
