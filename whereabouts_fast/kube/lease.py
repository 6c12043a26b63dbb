"""Leader election by a Lease: at most one process works, and another takes over when it dies.

The rules, after client-go's leaderelection:

- Every write is conditional on the lease's version, so of two candidates one gets it.
- Another's lease counts as held until *we* have seen no change of it for its whole duration, by
  our own monotonic clock. Its times are never compared with ours.
- Whoever cannot renew for `renew_deadline` stops working, which is before the others may begin.
- The lease is given back only after the work has stopped.

A process that was paused may go on for a moment without knowing: what the work writes must be
conditional by itself.
"""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from typing import Any

from whereabouts_fast.kube.client import Client, Object
from whereabouts_fast.kube.errors import ApiError, Conflict, NotFound
from whereabouts_fast.kube.hooks import LeaseHook
from whereabouts_fast.kube.resource import LEASES
from whereabouts_fast.kube.timestamps import micro_time

_JITTER = 1.2


class Elector:
    """One candidate for the lease `namespace/name`; `identity` must be its own among the living.

    duration: seconds for which others respect the lease after its last change. renew_deadline:
    seconds without a renewal after which the work is stopped. retry: seconds between renewals,
    and between attempts to get the lease. ValueError when they do not fit.
    on_error: told of requests that failed; the election goes on.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        *,
        duration: float = 15.0,
        renew_deadline: float = 10.0,
        retry: float = 2.0,
        hook: LeaseHook | None = None,
        on_error: Callable[[ApiError], None] | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        if not duration > renew_deadline:
            raise ValueError(
                f"lease duration {duration:g} s must be longer than the renew deadline "
                f"{renew_deadline:g} s; raise the first or lower the second"
            )
        if not renew_deadline > _JITTER * retry > 0:
            raise ValueError(
                f"renew deadline {renew_deadline:g} s must be longer than {_JITTER} times the "
                f"retry period {retry:g} s, and both above 0; raise the first or lower the second"
            )
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._duration = duration
        self._renew_deadline = renew_deadline
        self._retry = retry
        self._hook = hook
        self._on_error = on_error
        self._chance = chance
        self._clock = asyncio.get_running_loop().time
        # The lease as last seen or written, and when its spec was first seen so.
        self._lease: Object | None = None
        self._seen = 0.0
        self._renewed = 0.0

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Get the lease, then `await work()`; again when the lease is lost, until work returns.

        Losing the lease cancels the work and waits for its end. Being cancelled does the same,
        then gives the lease back; so does the work's return and its failure, which is raised.
        """
        while True:
            await self._acquire()
            if self._hook:
                self._hook(self._name, True)
            lost = False
            try:
                lost = await self._lead(work)
            finally:
                if self._hook:
                    self._hook(self._name, False)
                if not lost:
                    await self._release()
            if not lost:
                return

    async def _acquire(self) -> None:
        while True:
            if await self._take():
                return
            await asyncio.sleep(self._retry * (1 + _JITTER * self._chance()))

    async def _lead(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Work and renew; whether the lease was lost."""

        async def outcome() -> Exception | None:
            try:
                await work()
            except Exception as error:  # noqa: BLE001 -- raised below, outside the task group
                return error
            return None

        async with asyncio.TaskGroup() as group:
            task = group.create_task(outcome())
            try:
                kept = await self._keep(task)
            except asyncio.CancelledError:
                # The lease is kept while the work ends in its own time: nobody may begin before.
                task.cancel()
                if not await self._keep(task):
                    await asyncio.wait([task])
                raise
            if not kept:
                task.cancel()
        if not task.cancelled() and (error := task.result()) is not None:
            raise error
        return not kept

    async def _keep(self, task: "asyncio.Task[Any]") -> bool:
        """Renew until the work ends (True), or until the lease is lost (False)."""
        while True:
            deadline = self._renewed + self._renew_deadline
            wait = max(0.0, min(self._retry, deadline - self._clock()))
            done, _ = await asyncio.wait([task], timeout=wait)
            if done:
                return True
            if self._clock() >= deadline or not await self._renew(deadline):
                return False

    async def _take(self) -> bool:
        """One attempt to get the lease."""
        began = self._clock()
        try:
            async with asyncio.timeout(self._attempt):
                await self._look()
                if not self._free():
                    return False
                await self._write()
        except TimeoutError:
            return False
        except ApiError as error:
            self._report(error)
            return False
        self._renewed = began
        return True

    async def _renew(self, deadline: float) -> bool:
        """One attempt to renew; False when the lease is somebody else's by now.

        A request without success is no loss yet, for the deadline decides that.
        """
        began = self._clock()
        try:
            async with asyncio.timeout_at(min(deadline, began + self._attempt)):
                if not await self._write_ours():
                    return False
        except TimeoutError:
            return True
        except ApiError as error:
            self._report(error)
            return True
        self._renewed = began
        return True

    async def _release(self) -> None:
        try:
            async with asyncio.timeout(self._attempt):
                await self._write_ours(release=True)
        except TimeoutError:
            pass
        except ApiError as error:
            self._report(error)

    async def _write_ours(self, *, release: bool = False) -> bool:
        """Write the lease, unless somebody else holds it (False)."""
        try:
            await self._write(release=release)
        except (Conflict, NotFound):
            # Perhaps our own write, whose answer never came.
            await self._look()
            if _holder(self._lease) not in ("", self._identity):
                return False
            if release and _holder(self._lease) == "":
                return True
            await self._write(release=release)
        return True

    async def _look(self) -> None:
        try:
            lease = await self._client.get(LEASES, self._namespace, self._name)
        except NotFound:
            lease = None
        if (lease or {}).get("spec") != (self._lease or {}).get("spec"):
            self._seen = self._clock()
        self._lease = lease

    def _free(self) -> bool:
        if _holder(self._lease) in ("", self._identity):
            return True
        stated = (self._lease or {}).get("spec", {}).get("leaseDurationSeconds")
        return self._clock() - self._seen >= (stated or self._duration)

    async def _write(self, *, release: bool = False) -> None:
        now = micro_time()
        known = self._lease or {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"namespace": self._namespace, "name": self._name},
        }
        spec: Object = dict(known.get("spec") or {})
        if release:
            spec.pop("holderIdentity", None)
            spec |= {"leaseDurationSeconds": 1, "renewTime": now}
        else:
            if spec.get("holderIdentity") != self._identity:
                held_before = "leaseTransitions" in spec
                spec["leaseTransitions"] = spec.get("leaseTransitions", 0) + held_before
                spec["acquireTime"] = now
            spec["holderIdentity"] = self._identity
            spec["leaseDurationSeconds"] = math.ceil(self._duration)
            spec["renewTime"] = now
        body = {**known, "spec": spec}
        if self._lease is None:
            self._lease = await self._client.create(LEASES, self._namespace, body)
        else:
            self._lease = await self._client.replace(LEASES, self._namespace, self._name, body)

    @property
    def _attempt(self) -> float:
        # Half, so that one connection that hangs does not use up the time of a second attempt.
        return self._renew_deadline / 2

    def _report(self, error: ApiError) -> None:
        if self._on_error:
            self._on_error(error)


def _holder(lease: Object | None) -> str:
    spec = (lease or {}).get("spec") or {}
    return str(spec.get("holderIdentity") or "")
