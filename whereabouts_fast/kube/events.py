"""Events for people: written in the background, few, and never in the way of the work.

Of one (object, reason) there is one series: the same message again only counts up, another
message begins a new Event (the API lets nobody change a message), and what comes faster than
`spacing` replaces what has not been written yet. A bucket of tokens bounds the whole.
Source of the fields: KEP-383, events.k8s.io/v1.
"""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from whereabouts_fast.kube.client import Client, Object
from whereabouts_fast.kube.errors import ApiError, NotFound
from whereabouts_fast.kube.hooks import DropHook
from whereabouts_fast.kube.resource import EVENTS
from whereabouts_fast.kube.timestamps import micro_time

_NOTE_LIMIT = 1024
_ATTEMPTS = 3
_Key = tuple[str, ...]


@dataclass(slots=True)
class _Series:
    """One (object, reason): what happened last, and what the API has of it."""

    regarding: Object
    reason: str
    kind: str = ""
    note: str = ""
    count: int = 0
    seen: str = ""
    stored_name: str = ""  # "" = nothing stored, or something with another message
    next_write: float = float("-inf")
    failures: int = 0


class Recorder:
    """Takes events at any time; `run` writes them.

    component: what becomes `reportingController`. instance: which process of it. spacing: seconds
    between two writes for one (object, reason). burst, rate: writes altogether at once, and how
    many more per second. keep: how many (object, reason) are remembered. hook: told of each event
    that will never be written; `dropped` counts them.
    """

    def __init__(
        self,
        client: Client,
        component: str,
        *,
        instance: str = "",
        spacing: float = 10.0,
        burst: int = 50,
        rate: float = 5.0,
        keep: int = 1000,
        hook: DropHook | None = None,
    ) -> None:
        self.dropped = 0
        self._client = client
        self._component = component
        self._instance = (instance or component)[:128]
        self._spacing = spacing
        self._burst = burst
        self._rate = rate
        self._keep = keep
        self._hook = hook
        self._series: OrderedDict[_Key, _Series] = OrderedDict()
        self._pending: dict[_Key, _Series] = {}
        self._tokens = float(burst)
        self._filled = 0.0
        self._wake = asyncio.Event()

    def event(self, regarding: Mapping[str, Any], kind: str, reason: str, message: str) -> None:
        """Note an event; `kind` is Normal or Warning. Never raises.

        regarding: the object, or a reference to it with apiVersion, kind, namespace, name, uid.
        message: cut at 1024 bytes.
        """
        reference = _reference(regarding)
        if not reference.get("kind") or not reference.get("name"):
            self._drop(reason)
            return
        key = (
            *(reference.get(field, "") for field in ("kind", "namespace", "name", "uid")),
            reason,
        )
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = _Series(reference, reason)
            if len(self._series) > self._keep:
                oldest, _ = self._series.popitem(last=False)
                if self._pending.pop(oldest, None) is not None:
                    self._drop(oldest[-1])
        self._series.move_to_end(key)
        note = _cut(message)
        if (series.note, series.kind) != (note, kind):
            if key in self._pending:
                self._drop(reason)
            series.note, series.kind = note, kind
            series.count, series.stored_name = 0, ""
        series.count += 1
        series.seen = micro_time()
        self._pending[key] = series
        self._wake.set()

    async def run(self) -> NoReturn:
        """Write events until cancelled; what is pending then is lost, unless `flush` follows."""
        clock = asyncio.get_running_loop().time
        self._filled = clock()
        while True:
            self._wake.clear()
            now = clock()
            self._tokens = min(self._burst, self._tokens + (now - self._filled) * self._rate)
            self._filled = now
            key, wait = self._next(now)
            if key is not None:
                self._tokens -= 1
                await self._write(key, now)
                continue
            try:
                async with asyncio.timeout(wait):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def flush(self) -> None:
        """Write now whatever is pending, once each; for the end of a process, and for tests."""
        now = asyncio.get_running_loop().time()
        for key in list(self._pending):
            if key in self._pending:
                await self._write(key, now)

    def _next(self, now: float) -> tuple[_Key | None, float | None]:
        """The key to write now, or how long to wait for one (None: until an event comes)."""
        if not self._pending:
            return None, None
        key, series = min(self._pending.items(), key=lambda item: item[1].next_write)
        wait = max(series.next_write - now, (1 - self._tokens) / self._rate)
        return (key, None) if wait <= 0 else (None, wait)

    async def _write(self, key: _Key, now: float) -> None:
        series = self._pending.pop(key)
        series.next_write = now + self._spacing
        try:
            if not (series.stored_name and await self._count_up(series)):
                await self._create(series)
        except ApiError as error:
            series.failures += 1
            lasting = error.status in _LASTING
            if lasting or series.failures >= _ATTEMPTS:
                series.failures = 0
                self._drop(series.reason)
            else:
                self._pending.setdefault(key, series)
            return
        series.failures = 0

    async def _create(self, series: _Series) -> None:
        regarding, note, kind, count = series.regarding, series.note, series.kind, series.count
        # An event of an object without namespace lives in `default`, where people look for it.
        namespace = regarding.get("namespace") or "default"
        name = f"{regarding['name'][:_NAME_LIMIT]}.{secrets.token_hex(8)}"
        body: Object = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"namespace": namespace, "name": name},
            "eventTime": series.seen,
            "type": kind,
            "reason": series.reason,
            "action": "Reconcile",
            "note": note,
            "regarding": regarding,
            "reportingController": self._component,
            "reportingInstance": self._instance,
        }
        if count > 1:
            body["series"] = {"count": count, "lastObservedTime": series.seen}
        await self._client.create(EVENTS, namespace, body)
        if (series.note, series.kind) == (note, kind):
            series.stored_name = name

    async def _count_up(self, series: _Series) -> bool:
        """Write the count into the stored Event; False when it is no longer there."""
        value = {"count": series.count, "lastObservedTime": series.seen}
        try:
            await self._client.patch(
                EVENTS,
                series.regarding.get("namespace") or "default",
                series.stored_name,
                [{"op": "add", "path": "/series", "value": value}],
                metadata_only=True,
            )
        except NotFound:
            series.count, series.stored_name = 1, ""
            return False
        return True

    def _drop(self, reason: str) -> None:
        self.dropped += 1
        if self._hook:
            self._hook(reason)


# What the same request would meet again: no right, no such namespace, not valid.
_LASTING = frozenset({400, 401, 403, 404, 422})
# Object names go to 253 characters; 17 are ours.
_NAME_LIMIT = 236


def _reference(regarding: Mapping[str, Any]) -> Object:
    metadata = regarding.get("metadata") or regarding
    found = {
        "apiVersion": regarding.get("apiVersion"),
        "kind": regarding.get("kind"),
        "namespace": metadata.get("namespace"),
        "name": metadata.get("name"),
        "uid": metadata.get("uid"),
    }
    return {field: str(value) for field, value in found.items() if value}


def _cut(message: str) -> str:
    encoded = message.encode("utf-8", "replace")
    if len(encoded) <= _NOTE_LIMIT:
        return message
    return encoded[: _NOTE_LIMIT - 3].decode("utf-8", "ignore") + "..."
