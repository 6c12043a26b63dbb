"""The one error of a static build."""

from __future__ import annotations


class StaticError(Exception):
    """The executable cannot be built; the message says what failed and names the remedy."""
