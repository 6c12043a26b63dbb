"""Whether this process can do its work here: permissions, definitions, the system namespace.

Nothing is watched or written before all is right. Afterwards it is looked at again from time to
time, because a definition that somebody replaces by an older one makes the server drop our fields
without a word; then the process is not ready, and says why.
"""

from __future__ import annotations

import asyncio
from typing import NoReturn

from whereabouts_fast.controller import definitions, permissions
from whereabouts_fast.kube.client import Client
from whereabouts_fast.kube.errors import ApiError, NotFound
from whereabouts_fast.kube.resource import CRDS, NAMESPACES
from whereabouts_fast.observability import logs

_RETRY_SECONDS = 5.0


class SelfCheck:
    """Looks every `period` seconds, and more often while something is wrong."""

    def __init__(self, client: Client, namespace: str, lease: str, period: float) -> None:
        self._client = client
        self._namespace = namespace
        self._needs = permissions.needs(namespace, lease)
        self._period = period
        self._log = logs.get("self-check")
        self._problems = ["not looked at yet"]
        self._passed = asyncio.Event()

    @property
    def text(self) -> str:
        """What is wrong, one line for each thing; "" when nothing is."""
        return "\n".join(self._problems)

    async def passed(self) -> None:
        """Wait until all was right for the first time."""
        await self._passed.wait()

    async def run(self) -> NoReturn:
        """Look until cancelled."""
        told: set[str] = set()
        while True:
            found = await self._look()
            for text in found:
                if text not in told:
                    self._log.error("Failed self-check", err=text, retry=_RETRY_SECONDS)
            if not found and (told or not self._passed.is_set()):
                self._log.info("Passed self-check")
            told = set(found)
            self._problems = found
            if not found:
                self._passed.set()
            await asyncio.sleep(min(self._period, _RETRY_SECONDS) if found else self._period)

    async def _look(self) -> list[str]:
        try:
            missing = await permissions.denied(self._client, self._needs)
            found = [
                f"not allowed: {need}; grant it to the controller's ServiceAccount"
                for need in missing
            ]
            # What may not be read cannot be judged.
            unreadable = {need.resource for need in missing if need.verb == "get"}
            if CRDS not in unreadable:
                found += await definitions.problems(self._client)
            if NAMESPACES not in unreadable:
                found += await self._namespace_problems()
        except ApiError as error:
            if self._passed.is_set():
                # A server that is away says nothing about what is installed.
                return self._problems
            return [f"the API server cannot be asked: {error}"]
        return found

    async def _namespace_problems(self) -> list[str]:
        try:
            await self._client.get(NAMESPACES, None, self._namespace, metadata_only=True)
        except NotFound:
            text = f"the namespace {self._namespace} does not exist: create it, or set --namespace"
            return [text]
        return []
