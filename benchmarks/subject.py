"""The controller as the process that a benchmark is about."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

LIMIT = 180.0
# What has not used the processor for so long has nothing left to do.
_QUIET_SECONDS = 0.6


class Subject:
    """One running controller; its figures come from /proc."""

    def __init__(self, kubeconfig: Path, namespace: str, *flags: str) -> None:
        self._log = tempfile.NamedTemporaryFile("w+b")  # noqa: SIM115 - closed by `stop`
        self._url = ""
        self.began = time.perf_counter()
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "whereabouts_fast.cli.main", "controller"),
                *("--kubeconfig", str(kubeconfig), "--namespace", namespace),
                *("--listen", "127.0.0.1:0", "--log-format", "json"),
                *flags,
            ],
            stdout=self._log,
            stderr=self._log,
        )

    def stop(self) -> None:
        """End it in good order; RuntimeError with its last words when it had ended by itself."""
        ended = self._process.poll() is not None
        self._process.terminate()
        self._process.wait(timeout=LIMIT)
        with self._log:
            if ended:
                said = Path(self._log.name).read_bytes()[-2000:]
                raise RuntimeError(f"the controller ended: {said!r}")

    async def ready(self) -> None:
        """Return when it says that it is ready."""
        await until(lambda: bool(self._listen()))
        self._url = f"http://{self._listen()}"
        await until(lambda: _answers(f"{self._url}/readyz"))
        # Ready is who could lead; only who leads works.
        await until(lambda: self._said("Began to lead"))

    async def scrape(self) -> None:
        """Read all metrics once."""
        await asyncio.to_thread(_answers, f"{self._url}/metrics")

    def memory(self) -> dict[str, float]:
        """Return resident memory now and at most, in MB."""
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        found = dict(line.split(":", 1) for line in lines)
        return {
            name: round(int(found[key].split()[0]) / 1000, 1)
            for name, key in (("now", "VmRSS"), ("peak", "VmHWM"))
        }

    def processor(self) -> float:
        """Return the processor seconds used so far."""
        stat = Path(f"/proc/{self._process.pid}/stat").read_text()
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    async def quiet(self) -> float:
        """Wait until it has nothing left to do; return the processor seconds used so far."""
        used, since = self.processor(), time.perf_counter()
        async with asyncio.timeout(LIMIT):
            while time.perf_counter() - since < _QUIET_SECONDS:
                await asyncio.sleep(0.05)
                now = self.processor()
                # A process that only waits still renews its lease and looks at the clock.
                if now - used > 0.02:
                    used, since = now, time.perf_counter()
        return self.processor()

    def _listen(self) -> str:
        return next((str(e["listen"]) for e in self._entries() if e["msg"] == "Started"), "")

    def _said(self, message: str) -> bool:
        return any(entry["msg"] == message for entry in self._entries())

    def _entries(self) -> list[dict[str, object]]:
        if self._process.poll() is not None:
            raise RuntimeError("the controller ended")
        lines = Path(self._log.name).read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]


async def until(condition: Callable[[], bool]) -> None:
    """Poll until something is true. Raises TimeoutError after LIMIT seconds."""
    async with asyncio.timeout(LIMIT):
        while True:
            if await asyncio.to_thread(condition):
                return
            await asyncio.sleep(0.01)


@asynccontextmanager
async def running(kubeconfig: Path, namespace: str, *flags: str) -> AsyncIterator[Subject]:
    """Run the controller inside the block, which begins when it leads."""
    subject = Subject(kubeconfig, namespace, *flags)
    try:
        await subject.ready()
        yield subject
    finally:
        await asyncio.to_thread(subject.stop)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=LIMIT) as answer:
            answer.read()
            return True
    except urllib.error.HTTPError:
        return False
