"""Leader election against the real API server: handover, loss, and a holder that is killed."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hack.cluster.api import Api, JsonObject
from whereabouts_fast.kube.client import Client
from whereabouts_fast.kube.lease import Elector
from whereabouts_fast.kube.resource import LEASES

AGENT = "whereabouts-fast-leasetest/1.0"
NAMESPACE = "ipam-system"
NAME = "test-leader"
PATH = LEASES.path(NAMESPACE, NAME)
# Short, and yet long enough for a machine on which other tests run.
FAST: dict[str, Any] = {"duration": 5.0, "renew_deadline": 4.0, "retry": 0.2}


@pytest.fixture
async def client(api: Api, kubeconfig: Path) -> AsyncIterator[Client]:
    async with Client.connect(str(kubeconfig), AGENT) as connected:
        yield connected


class Candidate:
    """An elector whose work is to note that it works, until it is cancelled."""

    def __init__(self, client: Client, identity: str, **options: Any) -> None:
        self.identity = identity
        self.working = asyncio.Event()
        self.stopped = asyncio.Event()
        self.rounds = 0
        self.elector = Elector(client, NAMESPACE, NAME, identity, **{**FAST, **options})

    async def work(self) -> None:
        self.rounds += 1
        self.stopped.clear()
        self.working.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            # Real work takes a moment to stop, and leadership must last as long.
            await asyncio.sleep(0.05)
            self.working.clear()
            self.stopped.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Candidate"]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.elector.run(self.work))
            yield self
            task.cancel()


def spec(api: Api) -> JsonObject:
    found: JsonObject = api.get(PATH)["spec"]
    return found


async def within(seconds: float, event: asyncio.Event) -> None:
    async with asyncio.timeout(seconds):
        await event.wait()


async def test_one_leads_and_the_next_takes_over_as_soon_as_it_stops(
    api: Api, client: Client
) -> None:
    first, second = Candidate(client, "one"), Candidate(client, "two", duration=300)
    async with first.running():
        await within(10, first.working)
        assert spec(api)["holderIdentity"] == "one"
        assert spec(api)["leaseDurationSeconds"] == 5
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(second.elector.run(second.work))
            await asyncio.sleep(0.5)
            assert not second.working.is_set()
            assert first.rounds == 1
            waiting.cancel()
    assert first.stopped.is_set()
    released = spec(api)
    assert "holderIdentity" not in released
    async with second.running():
        await within(10, second.working)
        assert spec(api)["holderIdentity"] == "two"
        assert spec(api)["leaseTransitions"] == 1


async def test_two_candidates_at_once_are_never_both_at_work(api: Api, client: Client) -> None:
    candidates = [Candidate(client, str(number)) for number in range(4)]
    seen = []
    async with asyncio.TaskGroup() as group:
        tasks = {
            each.identity: group.create_task(each.elector.run(each.work)) for each in candidates
        }
        while tasks:
            async with asyncio.timeout(20):
                working = [group.create_task(each.working.wait()) for each in candidates]
                await asyncio.wait(working, return_when=asyncio.FIRST_COMPLETED)
            for task in working:
                task.cancel()
            leaders = [each for each in candidates if each.working.is_set()]
            assert len(leaders) == 1
            seen.append(leaders[0].identity)
            tasks.pop(leaders[0].identity).cancel()
            await within(10, leaders[0].stopped)
    assert sorted(seen) == ["0", "1", "2", "3"]


async def test_a_lease_of_our_own_identity_is_taken_back_at_once(api: Api, client: Client) -> None:
    api.create(LEASES.path(NAMESPACE), foreign("one"))
    async with Candidate(
        client, "one", duration=600, renew_deadline=400, retry=300
    ).running() as again:
        await within(10, again.working)


@pytest.mark.parametrize("renewed", ["2001-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"])
async def test_another_s_clock_decides_nothing(renewed: str, api: Api, client: Client) -> None:
    api.create(LEASES.path(NAMESPACE), foreign("other", seconds=2, renewed=renewed))
    began = asyncio.get_running_loop().time()
    async with Candidate(client, "one").running() as candidate:
        await within(20, candidate.working)
    assert asyncio.get_running_loop().time() - began >= 2


async def test_a_lease_written_by_somebody_else_stops_the_work(api: Api, client: Client) -> None:
    async with Candidate(client, "one").running() as candidate:
        await within(10, candidate.working)
        api.patch(PATH, [{"op": "replace", "path": "/spec/holderIdentity", "value": "two"}])
        await within(10, candidate.stopped)
        assert spec(api)["holderIdentity"] == "two"
        # Nobody renews it: after its duration it is ours once more.
        await within(20, candidate.working)
        assert candidate.rounds == 2


async def test_a_deleted_lease_is_written_again_and_the_work_goes_on(
    api: Api, client: Client
) -> None:
    async with Candidate(client, "one").running() as candidate:
        await within(10, candidate.working)
        api.delete(PATH)
        await asyncio.to_thread(
            api.wait_for,
            LEASES.path(NAMESPACE),
            lambda found: any(lease["metadata"]["name"] == NAME for lease in found),
        )
        assert spec(api)["holderIdentity"] == "one"
        assert candidate.rounds == 1


async def test_the_end_of_the_work_ends_the_election_and_gives_the_lease_back(
    api: Api, client: Client
) -> None:
    async def short() -> None:
        return

    async def failing() -> None:
        raise RuntimeError("a bug")

    await Elector(client, NAMESPACE, NAME, "one", **FAST).run(short)
    assert "holderIdentity" not in spec(api)
    with pytest.raises(RuntimeError, match="a bug"):
        await Elector(client, NAMESPACE, NAME, "one", **FAST).run(failing)
    assert "holderIdentity" not in spec(api)


HOLDER = f"""
import asyncio, sys
from whereabouts_fast.kube.client import Client
from whereabouts_fast.kube.lease import Elector

async def work():
    print("leading", flush=True)
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        print("stopped", flush=True)

async def main():
    async with Client.connect(sys.argv[1], "{AGENT}") as client:
        await Elector(client, "{NAMESPACE}", "{NAME}", "killed", **{FAST!r}).run(work)

asyncio.run(main())
"""


@asynccontextmanager
async def holder_process(kubeconfig: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Another process that leads, and says so line by line on its standard output."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, str(kubeconfig), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert await line_of(process) == "leading"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def line_of(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(30):
        return (await process.stdout.readline()).decode().strip()


async def test_a_killed_holder_is_succeeded_once_its_lease_has_run_out(
    api: Api, client: Client, kubeconfig: Path
) -> None:
    clock = asyncio.get_running_loop().time
    async with holder_process(kubeconfig) as process, Candidate(client, "heir").running() as heir:
        process.send_signal(signal.SIGKILL)
        killed = clock()
        await within(20, heir.working)
        assert clock() - killed >= FAST["duration"] - 2 * FAST["retry"]


async def test_a_holder_that_was_paused_stops_when_it_wakes(
    api: Api, client: Client, kubeconfig: Path
) -> None:
    async with holder_process(kubeconfig) as process, Candidate(client, "heir").running() as heir:
        process.send_signal(signal.SIGSTOP)
        await within(20, heir.working)
        process.send_signal(signal.SIGCONT)
        assert await line_of(process) == "stopped"
        assert spec(api)["holderIdentity"] == "heir"
        assert heir.rounds == 1


async def test_timings_that_do_not_fit_are_refused(client: Client) -> None:
    with pytest.raises(ValueError, match="lease duration 10 s"):
        Elector(client, NAMESPACE, NAME, "one", duration=10, renew_deadline=10)
    with pytest.raises(ValueError, match="retry period 9 s"):
        Elector(client, NAMESPACE, NAME, "one", retry=9)


def foreign(
    holder: str, *, seconds: int = 600, renewed: str = "2026-01-01T00:00:00.000000Z"
) -> JsonObject:
    """A lease as another process would have left it."""
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {"name": NAME},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": seconds,
            "renewTime": renewed,
            "acquireTime": renewed,
            "leaseTransitions": 3,
        },
    }
