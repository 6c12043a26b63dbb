"""Every version of the objects that addresses depend on, in the order the server stored them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from hack.cluster.api import Api, ApiError
from whereabouts_fast.kube.resource import IPPOOLS, NODESLICEPOOLS, PODS, RESERVATIONS, Resource

WATCHED = (IPPOOLS, NODESLICEPOOLS, PODS, RESERVATIONS)
_LIMIT = 30.0
_SLICE = 5.0


@dataclass(frozen=True)
class Version:
    """One version of an object; `deleted`: its last one, at the number of its deletion.

    All kinds lie in one etcd, whose revisions number all of them together.
    """

    number: int
    kind: str
    item: dict[str, Any]
    deleted: bool

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.item["metadata"]["name"])

    @property
    def uid(self) -> str:
        """The object's uid."""
        return str(self.item["metadata"]["uid"])


class History:
    """Watches from its construction on; a context manager. It is no client of the project's own."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._versions: list[Version] = []
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._errors: list[Exception] = []
        self._threads = []
        for resource in WATCHED:
            answer = api.get(resource.path())
            self._saw(resource, answer["items"])
            thread = threading.Thread(
                target=self._watch, args=(resource, answer["metadata"]["resourceVersion"])
            )
            self._threads.append(thread)
            thread.start()

    def __enter__(self) -> History:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        if self._errors and error is None:
            raise ExceptionGroup("the history has holes", self._errors)

    def versions(self) -> list[Version]:
        """Return all there is, once everything that the server has now was seen."""
        deadline = time.monotonic() + _LIMIT
        for resource in WATCHED:
            items = self._api.get(resource.path())["items"]
            while missing := self._unseen(resource, items):
                assert not self._errors, self._errors
                assert time.monotonic() < deadline, f"the watch is behind by {missing}"
                time.sleep(0.01)
        with self._lock:
            return sorted(self._versions, key=lambda one: one.number)

    def _unseen(self, resource: Resource, items: list[dict[str, Any]]) -> set[tuple[str, int]]:
        """Return what differs from what was seen: a version that is new, or one that is gone."""
        there = {(str(i["metadata"]["uid"]), int(i["metadata"]["resourceVersion"])) for i in items}
        known: dict[str, Version] = {}
        with self._lock:
            for one in self._versions:
                if one.kind == resource.plural and known.get(one.uid, one).number <= one.number:
                    known[one.uid] = one
        newest = {(uid, one.number) for uid, one in known.items() if not one.deleted}
        return {
            (uid, number)
            for uid, number in there ^ newest
            # What was seen may be newer than the list.
            if uid not in known or known[uid].number <= number
        }

    def _watch(self, resource: Resource, version: str) -> None:
        while not self._over.is_set():
            try:
                for event in self._api.watch(
                    resource.path(), seconds=_SLICE, resourceVersion=version
                ):
                    version = event["object"]["metadata"]["resourceVersion"]
                    self._saw(resource, [event["object"]], deleted=event["type"] == "DELETED")
                    if self._over.is_set():
                        return
            except TimeoutError:
                continue
            except (OSError, ApiError) as error:
                self._errors.append(error)
                return

    def _saw(
        self, resource: Resource, items: Iterable[dict[str, Any]], *, deleted: bool = False
    ) -> None:
        with self._lock:
            self._versions += [
                Version(int(i["metadata"]["resourceVersion"]), resource.plural, i, deleted)
                for i in items
            ]
