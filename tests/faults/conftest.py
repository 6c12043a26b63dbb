"""The shim's fixtures, for its faults are injected here."""

from __future__ import annotations

from tests.shim.conftest import shim, world

__all__ = ["shim", "world"]
