"""Wall-clock times as the API has them. Nothing is ever decided by them."""

from datetime import UTC, datetime


def micro_time() -> str:
    """Now as a MicroTime of the API: UTC with six digits after the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
