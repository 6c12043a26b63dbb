"""Everything that can go wrong, as the CNI error that the runtime is shown.

Codes below 100 are those of the CNI specification 1.1.0, section "Error"; 100 and more are ours.
"""

from __future__ import annotations

INCOMPATIBLE_VERSION = 1
ENVIRONMENT = 4
IO_FAILURE = 5
DECODE = 6
CONFIGURATION = 7
TRY_AGAIN = 11
NOT_AVAILABLE = 50
PODS_AT_RISK = 51
NO_FREE_ADDRESS = 101
REFUSED = 102
CHECK_FAILED = 103
ADDRESS_UNAVAILABLE = 104
UNEXPECTED = 999


class CniError(Exception):
    """An error for the runtime: a code, what is wrong in one line, and what to do about it."""

    def __init__(self, code: int, msg: str, details: str = "") -> None:
        super().__init__(msg)
        self.code = code
        self.msg = msg
        self.details = details


class Later(Exception):  # noqa: N818 - not an error yet: it becomes one when the limit has passed
    """What was tried may succeed within seconds; the lock has to be released before waiting.

    `delay` is in seconds, None where the caller's own backoff decides. `failure` is what the
    runtime is told when the time is up.
    """

    def __init__(self, failure: CniError, delay: float | None = None) -> None:
        super().__init__(failure.msg)
        self.failure = failure
        self.delay = delay

    def pending(self) -> bool:
        """Tell, after waiting and with no lock held, whether to wait on without trying again."""
        return False
