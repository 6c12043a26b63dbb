"""`make demo` as a newcomer runs it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAST = re.compile(
    r"demo: (\d+) addresses, 0 duplicates, "
    r"1\.00 requests per steady ADD, 1\.00 per steady DEL"
)


@pytest.mark.timeout(180)
def test_demo_gives_dozens_of_addresses_and_counts_one_request_for_each() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hack.demo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    last = LAST.fullmatch(done.stdout.splitlines()[-1])
    assert last, done.stdout[-2000:]
    assert int(last[1]) >= 48
    for state in ("Draining", "Cooling"):
        assert state in done.stdout, f"the lost slice was never shown {state}"
