"""The shim's fixtures, for its faults are injected here."""

from __future__ import annotations

from tests.shim.conftest import form, shim, traced, world

__all__ = ["form", "shim", "traced", "world"]
