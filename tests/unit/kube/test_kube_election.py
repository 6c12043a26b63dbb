"""Elections over hours with requests that fail, hang, and are done although their answer is lost.

The store lies: it holds one lease, checks nothing but the version of a write, and serves in the
order of arrival. What the real server does is in tests/integration.
"""

import asyncio
import random
from typing import Any, cast

import pytest

from tests.unit.kube.jumping import jump, run
from whereabouts_fast.kube.client import Client, Object
from whereabouts_fast.kube.errors import AlreadyExists, Conflict, NotFound, Unreachable
from whereabouts_fast.kube.lease import Elector


class Store:
    """One lease, and an unreliable way to it."""

    def __init__(self, chance: random.Random, trouble: float) -> None:
        self.lease: Object | None = None
        self.writes = 0
        self._version = 0
        self._chance = chance
        self._trouble = trouble

    async def get(self, *_: object) -> Object:
        await self._way()
        if self.lease is None:
            raise NotFound(404, "NotFound", "")
        found = self.lease
        await self._way()
        return found

    async def create(self, _: object, __: object, body: Object) -> Object:
        await self._way()
        if self.lease is not None:
            raise AlreadyExists(409, "AlreadyExists", "")
        return await self._store(body)

    async def replace(self, _: object, __: object, ___: object, body: Object) -> Object:
        await self._way()
        if self.lease is None:
            raise NotFound(404, "NotFound", "")
        if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", "")
        return await self._store(body)

    async def _store(self, body: Object) -> Object:
        self._version += 1
        self.writes += 1
        metadata = {**body["metadata"], "resourceVersion": str(self._version)}
        self.lease = {**body, "metadata": metadata}
        stored = self.lease
        await self._way()
        return stored

    async def _way(self) -> None:
        await asyncio.sleep(self._chance.random() * 0.1)
        if self._chance.random() < self._trouble:
            if self._chance.random() < 0.3:
                await asyncio.sleep(self._chance.random() * 60)
            raise Unreachable("x", "x")


class Team:
    """Candidates for one lease, and who of them works."""

    def __init__(self, store: Store, size: int, chance: random.Random, **options: Any) -> None:
        self.working: set[str] = set()
        self.led: list[str] = []
        self._chance = chance
        self.electors = {
            name: Elector(cast(Client, store), "ns", "lease", name, chance=chance.random, **options)
            for name in (f"candidate {number}" for number in range(size))
        }

    async def work_as(self, name: str) -> None:
        assert not self.working, f"{name} begins while {self.working} still work"
        self.working.add(name)
        self.led.append(name)
        try:
            await asyncio.sleep(self._chance.random() * 300)
            if self._chance.random() < 0.5:
                await asyncio.get_running_loop().create_future()
        finally:
            try:
                await asyncio.sleep(self._chance.random() * 4)
            finally:
                self.working.discard(name)


@pytest.mark.parametrize("seed", range(10))
def test_no_two_ever_work_at_once_whatever_happens_to_their_requests(seed: int) -> None:
    chance = random.Random(seed)
    trouble = chance.choice([0.0, 0.05, 0.3, 0.6])

    async def main() -> None:
        store = Store(chance, trouble)
        team = Team(store, 3, chance)

        async def live(name: str) -> None:
            while True:
                # A life ends by the work's own end, or by SIGTERM; then a new one begins.
                try:
                    async with asyncio.timeout(chance.random() * 900):
                        await team.electors[name].run(lambda: team.work_as(name))
                except TimeoutError:
                    pass

        try:
            async with asyncio.timeout(2 * 3600), asyncio.TaskGroup() as group:
                for name in team.electors:
                    group.create_task(live(name))
        except TimeoutError:
            pass
        assert team.led, f"seed {seed}: nobody ever led"

    run(main())


def test_a_quiet_leader_writes_once_per_retry_and_the_others_only_look() -> None:
    chance = random.Random(1)

    async def main() -> int:
        store = Store(chance, 0.0)
        team = Team(store, 3, chance)

        async def forever(name: str) -> None:
            team.led.append(name)
            await asyncio.get_running_loop().create_future()

        try:
            async with asyncio.timeout(200), asyncio.TaskGroup() as group:
                for name, elector in team.electors.items():
                    group.create_task(elector.run(lambda name=name: forever(name)))  # type: ignore[misc]
        except TimeoutError:
            pass
        assert len(team.led) == 1
        return store.writes

    assert 90 <= run(main()) <= 102


def test_a_process_that_was_paused_stops_its_work_without_another_renewal() -> None:
    chance = random.Random(1)

    async def main() -> None:
        store = Store(chance, 0.0)
        team = Team(store, 1, chance)
        (elector,) = team.electors.values()
        stopped = asyncio.Event()
        writes = 0

        async def work() -> None:
            nonlocal writes
            await asyncio.sleep(5)
            writes = store.writes
            jump(60)
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                assert store.writes == writes
                stopped.set()

        async with asyncio.TaskGroup() as group:
            task = group.create_task(elector.run(work))
            await stopped.wait()
            task.cancel()

    run(main())


def test_the_work_is_told_to_stop_before_the_lease_is_given_back() -> None:
    chance = random.Random(1)

    async def main() -> list[str]:
        store = Store(chance, 0.0)
        heard: list[str] = []
        elector = Elector(
            cast(Client, store),
            "ns",
            "lease",
            "one",
            hook=lambda name, leading: heard.append(f"{name} {leading}"),
        )

        def holder() -> object:
            assert store.lease is not None
            return store.lease["spec"].get("holderIdentity")

        async def work() -> None:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                # Longer than the lease lasts: it must be renewed until the end.
                await asyncio.sleep(60)
                heard.append(f"stopped while held by {holder()}")

        async with asyncio.TaskGroup() as group:
            task = group.create_task(elector.run(work))
            await asyncio.sleep(10)
            task.cancel()
        heard.append(f"held by {holder()}")
        assert store.writes > 30
        return heard

    assert run(main()) == [
        "lease True",
        "stopped while held by one",
        "lease False",
        "held by None",
    ]
