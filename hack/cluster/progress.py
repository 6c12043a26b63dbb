"""Tells whoever waits for a long Go build that it goes on."""

import threading
import time
from collections import deque
from collections.abc import Callable

_EVERY_SECONDS = 15.0


class Progress:
    """Counts the lines of `go build -v` and says every 15 s how far it is; a context manager."""

    def __init__(self, name: str, say: Callable[[str], None]) -> None:
        self._name = name
        self._say = say
        self._compiled = 0
        self._downloaded = 0
        self._others: deque[str] = deque(maxlen=20)
        self._begin = time.monotonic()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._report, name="build-progress", daemon=True)

    def __enter__(self) -> "Progress":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def take(self, line: str) -> None:
        """Take one line: a package's path, a download notice, or what may explain a failure."""
        if line.startswith("go: downloading "):
            self._downloaded += 1
        elif line and " " not in line:
            self._compiled += 1
        else:
            self._others.append(line)

    def errors(self) -> str:
        """Return the last lines that were neither packages nor downloads."""
        return "\n".join(self._others)

    def line(self) -> str:
        """Return how far it is."""
        counts = f"{self._compiled} packages compiled"
        if self._downloaded:
            counts = f"{self._downloaded} modules downloaded, {counts}"
        return f"tools: building {self._name}: {counts}, {time.monotonic() - self._begin:.0f} s"

    def _report(self) -> None:
        while not self._done.wait(_EVERY_SECONDS):
            self._say(self.line())
