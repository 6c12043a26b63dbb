"""A client whose watches and lists are written down beforehand.

It lies: it has no storage, no versions that grow, no limits, and answers in no time. It is there
for what a real server cannot be made to do for hours; what a server really does is in
tests/integration.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

from whereabouts_fast.kube.client import Client, Object
from whereabouts_fast.kube.resource import Resource

Answer = list[Object] | Exception


def event(kind: str, name: str, version: str) -> Object:
    return {"type": kind, "object": {"metadata": {"name": name, "resourceVersion": version}}}


def bookmark(version: str, *, end: bool = False) -> Object:
    notes = {"annotations": {"k8s.io/initial-events-end": "true"}} if end else {}
    return {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": version, **notes}}}


def failure(code: int, reason: str) -> Object:
    return {"type": "ERROR", "object": {"kind": "Status", "code": code, "reason": reason}}


class ScriptedClient:
    """`watches` and `lists` say what the n-th such request gets; it hangs when they are used up.

    In a watch, a number stands for so many seconds without anything.
    """

    def __init__(
        self,
        watches: Callable[[int], list[Object | float] | Exception | None],
        lists: Callable[[int], Object | Exception] | None = None,
    ) -> None:
        self.queries: list[dict[str, str]] = []
        self.at: list[float] = []
        self.tokens: list[str | None] = []
        self._watches = watches
        self._lists = lists

    def as_client(self) -> Client:
        return cast(Client, self)

    @asynccontextmanager
    async def stream(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        query: Mapping[str, str],
        **_: Any,
    ) -> AsyncIterator[AsyncGenerator[list[Object]]]:
        self.queries.append(dict(query))
        self.at.append(asyncio.get_running_loop().time())
        answer = self._watches(len(self.queries) - 1)
        if isinstance(answer, Exception):
            raise answer

        async def batches() -> AsyncGenerator[list[Object]]:
            if answer is None:
                await asyncio.get_running_loop().create_future()
            for each in answer or ():
                if isinstance(each, dict):
                    yield [each]
                else:
                    await asyncio.sleep(each)

        yield batches()

    async def list(
        self, resource: Resource, namespace: str | None = None, **options: Any
    ) -> Object:
        assert self._lists is not None
        self.tokens.append(options["continue_token"])
        answer = self._lists(len(self.tokens) - 1)
        if isinstance(answer, Exception):
            raise answer
        return answer
