"""Keeps a copy of one list of objects true: list, watch, and what to do when either ends.

A machine of three steps. Each ends in one of few ways, and the table says what follows:

- A list by stream is the rule: one request lists, and goes on as the watch. A server that cannot
  do that is asked page by page. The next list tries the stream again, for servers get updated.
- A watch that ended goes on from the last version seen. Only an expired version costs a list.
- Everything but the normal end of a watch is followed by a pause that doubles, up to a ceiling.
  A watch that ended at once is not normal: it would be thousands of requests per second.
"""

import asyncio
import random
from collections.abc import Callable
from enum import Enum, auto
from typing import NoReturn, Protocol

from whereabouts_fast.kube.client import Client, Object
from whereabouts_fast.kube.errors import ApiError, Gone, Invalid, Silent, Unreachable, from_status
from whereabouts_fast.kube.hooks import WatchHook
from whereabouts_fast.kube.resource import Resource


class Step(Enum):
    """What is being done."""

    STREAM = auto()
    PAGES = auto()
    WATCH = auto()


class End(Enum):
    """How it ended; in lower case the reason in metrics."""

    SYNCED = auto()  # the list is complete
    CLOSED = auto()  # the server ended it in good order
    SHORT = auto()  # likewise, but at once
    SILENT = auto()  # open, but without a byte for too long
    EXPIRED = auto()  # 410: the version or continue token is too old
    UNSUPPORTED = auto()  # this server cannot list by stream
    REFUSED = auto()  # the server does not want to watch from our version
    BROKEN = auto()  # anything else


# (what was done, how it ended) -> (what is done next, whether after a pause)
TABLE: dict[tuple[Step, End], tuple[Step, bool]] = {
    # While listing by stream, objects are only collected: whatever cuts it short, begin anew.
    (Step.STREAM, End.SYNCED): (Step.WATCH, False),
    (Step.STREAM, End.CLOSED): (Step.STREAM, True),
    (Step.STREAM, End.SHORT): (Step.STREAM, True),
    (Step.STREAM, End.SILENT): (Step.STREAM, True),
    (Step.STREAM, End.EXPIRED): (Step.STREAM, True),
    (Step.STREAM, End.UNSUPPORTED): (Step.PAGES, False),
    (Step.STREAM, End.BROKEN): (Step.STREAM, True),
    # The pages of one list are of one version; when that expires, all of them are.
    (Step.PAGES, End.SYNCED): (Step.WATCH, False),
    (Step.PAGES, End.EXPIRED): (Step.PAGES, True),
    (Step.PAGES, End.BROKEN): (Step.PAGES, True),
    (Step.WATCH, End.CLOSED): (Step.WATCH, False),
    (Step.WATCH, End.SHORT): (Step.WATCH, True),
    (Step.WATCH, End.SILENT): (Step.WATCH, True),
    (Step.WATCH, End.EXPIRED): (Step.STREAM, True),
    # As after etcd was restored from a backup: our version is one that it never had.
    (Step.WATCH, End.REFUSED): (Step.STREAM, True),
    (Step.WATCH, End.BROKEN): (Step.WATCH, True),
}

FIRST_PAUSE = 0.8
LONGEST_PAUSE = 30.0
HEALTH = 120.0
SHORT = 1.0
PAGE = 500
# The server sends a bookmark about once a minute to each watch, also when nothing happens.
SILENCE = 90.0
# No answer, no right, no time: to list would fail likewise, and cost more when it did not.
_NOT_ABOUT_THE_VERSION = frozenset({0, 200, 401, 403, 429, 502, 503})


class Machine:
    """Where in the table we are, and how long the next pause is; knows time only as a number."""

    def __init__(self, chance: Callable[[], float]) -> None:
        self.step = Step.STREAM
        self._chance = chance
        self._failures = 0
        self._last_failure = float("-inf")

    def advance(self, end: End, now: float) -> float:
        """Go on to the next step; seconds to pause before it."""
        self.step, pause = TABLE[self.step, end]
        if not pause:
            return 0.0
        if now - self._last_failure >= HEALTH:
            self._failures = 0
        self._last_failure = now
        longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self._failures, 64))
        self._failures += 1
        return longest * self._chance()


def judge(step: Step, error: ApiError) -> End:
    """How a step ended that ended with `error`."""
    if isinstance(error, Gone):
        return End.EXPIRED
    if isinstance(error, Silent):
        return End.SILENT
    if step is Step.STREAM and (isinstance(error, Invalid) or error.status == 400):
        return End.UNSUPPORTED
    if step is Step.WATCH and error.status not in _NOT_ABOUT_THE_VERSION:
        return End.REFUSED
    return End.BROKEN


class Sink(Protocol):
    """Where the objects go."""

    def begin(self) -> None:
        """A list begins; what an unfinished one brought is void."""

    def listed(self, item: Object) -> None:
        """An object of the list that has begun."""

    def commit(self) -> None:
        """The list is complete: what was not in it exists no more."""

    def changed(self, item: Object) -> None:
        """An object was created or changed."""

    def deleted(self, item: Object) -> None:
        """An object is gone; this was its last state."""


class Reflector:
    """Drives the machine for one resource; `run` feeds `sink` until it is cancelled."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        sink: Sink,
        *,
        namespace: str | None = None,
        metadata_only: bool = False,
        field_selector: str | None = None,
        hook: WatchHook | None = None,
        chance: Callable[[], float] = random.random,
        silence: float = SILENCE,
    ) -> None:
        self._client = client
        self._resource = resource
        self._sink = sink
        self._namespace = namespace
        self._metadata_only = metadata_only
        self._field_selector = field_selector
        self._hook = hook
        self._chance = chance
        self._silence = silence
        self._machine = Machine(chance)
        self._version = ""

    async def run(self) -> NoReturn:
        """List and watch for ever; only a bug in the sink ends it."""
        clock = asyncio.get_running_loop().time
        while True:
            began = clock()
            error = None
            try:
                if self._machine.step is Step.PAGES:
                    await self._pages()
                    end = End.SYNCED
                else:
                    end = await self._watch()
                    if end is End.CLOSED and clock() - began < SHORT:
                        end = End.SHORT
            except ApiError as caught:
                error = caught
                end = judge(self._machine.step, caught)
            pause = self._machine.advance(end, clock())
            if end is not End.SYNCED and self._hook:
                self._hook.restarted(self._resource.plural, end.name.lower(), error)
            if error is not None and error.retry_after:
                pause = max(pause, error.retry_after)
            if pause:
                await asyncio.sleep(pause)

    async def _pages(self) -> None:
        self._sink.begin()
        token: str | None = None
        while True:
            page = await self._client.list(
                self._resource,
                self._namespace,
                field_selector=self._field_selector,
                metadata_only=self._metadata_only,
                limit=PAGE,
                continue_token=token,
            )
            for item in page.get("items") or ():
                self._sink.listed(item)
            token = page["metadata"].get("continue")
            if not token:
                break
        self._version = page["metadata"]["resourceVersion"]
        self._sink.commit()

    async def _watch(self) -> End:
        query = {
            "allowWatchBookmarks": "true",
            # Spread out, so that not all watches of a cluster come back in the same second.
            "timeoutSeconds": str(300 + int(300 * self._chance())),
        }
        if self._machine.step is Step.STREAM:
            # No version is named: the list must be no older than this moment, as a read of
            # storage is, or a watch could go back to what was true before.
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
            self._sink.begin()
        else:
            query["resourceVersion"] = self._version
        async with self._client.stream(
            self._resource,
            self._namespace,
            query=query,
            field_selector=self._field_selector,
            metadata_only=self._metadata_only,
            silence=self._silence,
        ) as batches:
            async for events in batches:
                for event in events:
                    if (end := self._take(event)) is not None:
                        return end
        return End.CLOSED

    def _take(self, event: Object) -> End | None:
        try:
            kind, item = event["type"], event["object"]
            if kind == "ERROR":
                return self._error(item)
            version = item["metadata"]["resourceVersion"]
        except (KeyError, TypeError) as error:
            raise Unreachable("Malformed", f"not a watch event: {str(event)[:200]}") from error
        listing = self._machine.step is Step.STREAM
        if kind == "BOOKMARK":
            if listing:
                notes = item["metadata"].get("annotations") or {}
                if notes.get("k8s.io/initial-events-end") != "true":
                    # A server that knows nothing of streaming lists ignores what we asked for.
                    return End.UNSUPPORTED
                self._sink.commit()
                self._machine.advance(End.SYNCED, 0.0)
        elif kind == "DELETED":
            self._sink.deleted(item)
        elif listing:
            self._sink.listed(item)
        else:
            self._sink.changed(item)
        self._version = version
        return None

    def _error(self, status: Object) -> End:
        error = from_status(
            int(status.get("code") or 500), status, verb="watch", resource=self._resource.full_name
        )
        if self._machine.step is Step.STREAM and not isinstance(error, Gone):
            # etcd before 3.6 cannot tell how far it is, and the server finds out only now. If the
            # trouble is another one, the pages will meet it too.
            return End.UNSUPPORTED
        raise error
