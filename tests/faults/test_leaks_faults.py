"""No fault between the controller and the server makes it free an address of a live pod."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hack.cluster.api import Api
from hack.cluster.server import Cluster
from tests.faults.actions import (
    Action,
    Answer,
    CutBeforeSending,
    CutReply,
    DelayStream,
    Forward,
    Gate,
    Hold,
    Hook,
    Request,
    refusal,
)
from tests.faults.proxy import Proxy
from tests.integration.controller_process import POOLS, create_nad, create_node, running
from tests.integration.machines import create_machine, kubevirt, launch
from tests.integration.pods import (
    PATIENT,
    QUICK,
    create_pod,
    deal,
    delete_pod,
    finish,
    opened,
    record,
    recorded,
    set_ready,
    wait_recorded,
)
from tests.integration.test_controller_pairs import SLICE, WIDE, reserve, wait_reserved
from whereabouts_fast.kube.resource import NODES, PODS, VMIS

POOL_A, POOL_B = "blue-a-10.40.0.0-26", "blue-b-10.40.0.64-26"
ALL_PODS = PODS.path()


def reads(path: str) -> Callable[[Request], bool]:
    return lambda request: request.method == "GET" and request.path == path


def patches(pool: str) -> Callable[[Request], bool]:
    return lambda request: request.method == "PATCH" and request.path == f"{POOLS}/{pool}"


class Switch:
    """A fault that lasts until it is taken away; `met` are the paths it was met at."""

    def __init__(self, fault: Action) -> None:
        self.on = True
        self.met: set[str] = set()
        self._fault = fault

    def __call__(self, request: Request) -> Action:
        if not self.on:
            return Forward()
        self.met.add(request.path)
        return self._fault


def test_a_pod_that_the_watch_has_not_shown_keeps_its_address(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    """The fault "stale cache", for pods: whatever their watch lacks is read before a release."""
    deal(api, "a")
    gate = Gate(closed=False)
    with Proxy(cluster) as proxy:
        proxy.inject(
            DelayStream(gate), when=lambda request: request.is_watch and request.path == ALL_PODS
        )
        with running(proxy.kubeconfig, tmp_path, *QUICK):
            opened(api, POOL_A)
            uid = create_pod(api, "sts-0")
            record(api, POOL_A, 4, "sts-0", uid)
            record(api, POOL_A, 9, "witness", "u")
            wait_recorded(api, POOL_A, {4})
            gate.close()
            record(api, POOL_A, 5, "new", create_pod(api, "new"))
            # Made again under its name: the cache still has the pod of before.
            delete_pod(api, "sts-0")
            record(api, POOL_A, 6, "sts-0", create_pod(api, "sts-0"))
            record(api, POOL_A, 9, "witness", "u")
            wait_recorded(api, POOL_A, {4, 5, 6})
            gate.open()
            wait_recorded(api, POOL_A, {5, 6})


def test_a_pod_that_is_made_again_while_the_release_is_decided_keeps_its_own_entry(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    """Case T26: the patch tests the very entry, so whatever changes before it makes it fail."""
    deal(api, "a")
    with Proxy(cluster) as proxy:

        def change(_: Request) -> None:
            record(api, POOL_A, 5, "sts-0", create_pod(api, "sts-0"), id="another")

        proxy.inject(Hook(before=change), when=patches(POOL_A), times=1)
        with running(cluster.kubeconfig, tmp_path, *QUICK) as controller:
            opened(api, POOL_A)
            controller.stop()
        record(api, POOL_A, 5, "sts-0", "old")
        with running(proxy.kubeconfig, tmp_path, *QUICK):
            record(api, POOL_A, 9, "witness", "u")
            wait_recorded(api, POOL_A, {5})
            assert api.get(f"{POOLS}/{POOL_A}")["spec"]["allocations"]["5"]["id"] == "another"


FAILURES: dict[str, Action] = {
    "cut": CutBeforeSending(),
    "lost": CutReply(),
    "overload": refusal(429, "TooManyRequests", Retry_After="1"),
    "broken": refusal(500, "InternalError"),
    "forbidden": refusal(403, "Forbidden"),
    "page": Answer(404, "<html>no such page</html>"),
    "nothing": Answer(404, b""),
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_what_cannot_be_read_is_not_gone(
    cluster: Cluster, api: Api, tmp_path: Path, failure: Action
) -> None:
    deal(api, "a", "b")
    with Proxy(cluster) as proxy:
        switch = Switch(failure)
        proxy.inject(switch, when=reads(PODS.path("tenant", "p1")))
        proxy.inject(switch, when=reads(NODES.path(name="b")))
        with running(proxy.kubeconfig, tmp_path, *QUICK):
            opened(api, POOL_A, POOL_B)
            record(api, POOL_A, 5, "p1", "u")
            record(api, POOL_B, 5, "p2", "u")
            record(api, POOL_A, 6, "witness", "u")
            wait_recorded(api, POOL_A, {5})
            assert recorded(api, POOL_B) == {5}
            assert switch.met == {PODS.path("tenant", "p1"), NODES.path(name="b")}
            switch.on = False
            wait_recorded(api, POOL_A, set())
            wait_recorded(api, POOL_B, set())


@pytest.mark.parametrize(
    "failure",
    [
        CutBeforeSending(),
        CutReply(),
        refusal(409, "Conflict"),
        refusal(422, "Invalid"),
        refusal(503, "ServiceUnavailable"),
    ],
    ids=["cut", "lost", "conflict", "invalid", "broken"],
)
def test_a_release_that_fails_is_made_again(
    cluster: Cluster, api: Api, tmp_path: Path, failure: Action
) -> None:
    deal(api, "a")
    with running(cluster.kubeconfig, tmp_path) as controller:
        opened(api, POOL_A)
        controller.stop()
    record(api, POOL_A, 5, "p1", "u")
    record(api, POOL_A, 6, "lives", create_pod(api, "lives"))
    with Proxy(cluster) as proxy:
        proxy.inject(failure, when=patches(POOL_A), times=3)
        with running(proxy.kubeconfig, tmp_path, *QUICK):
            wait_recorded(api, POOL_A, {6})


def test_a_pool_that_hangs_holds_up_no_other(cluster: Cluster, api: Api, tmp_path: Path) -> None:
    deal(api, "a", "b")
    with running(cluster.kubeconfig, tmp_path) as controller:
        opened(api, POOL_A, POOL_B)
        controller.stop()
    for pool in (POOL_A, POOL_B):
        for offset in range(40):
            record(api, pool, offset + 1, f"p{offset}", "u")
    gate = Gate()
    with Proxy(cluster) as proxy:
        proxy.inject(Hold(gate), when=patches(POOL_A))
        with running(proxy.kubeconfig, tmp_path, *QUICK):
            wait_recorded(api, POOL_B, set())
            gate.wait_until_reached()
            assert len(recorded(api, POOL_A)) == 40
            gate.open()
            wait_recorded(api, POOL_A, set())


def test_a_controller_killed_between_entry_and_reservation_leaves_nothing_for_ever(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_node(api, "n1")
    create_nad(api, "wide", network_name=None, range="10.40.0.0/16", node_slice_size=None)
    create_nad(api, "narrow", network_name=None)
    fast = ("--lease-duration", "3", "--renew-deadline", "2", "--retry-period", "0.3")
    with running(cluster.kubeconfig, tmp_path, *QUICK) as controller:
        opened(api, WIDE, SLICE)
        controller.stop()
    reserve(api, "10.40.0.5", "goes", "c-5")
    record(api, SLICE, 5, "goes", "u")
    with Proxy(cluster) as proxy, running(proxy.kubeconfig, tmp_path, *QUICK, *fast) as first:

        def die(*_: object) -> None:
            first.process.send_signal(signal.SIGKILL)

        proxy.inject(Hook(after=die), when=patches(SLICE), times=1)
        wait_recorded(api, SLICE, set())
        first.process.wait(30)
    wait_reserved(api, {"10.40.0.5": "goes"})
    with running(cluster.kubeconfig, tmp_path, *QUICK, *fast):
        wait_reserved(api, {})


@pytest.fixture
def defined(api: Api) -> Iterator[None]:
    with kubevirt(api):
        yield


@pytest.mark.usefixtures("defined")
def test_a_machine_whose_kind_is_not_served_just_now_is_not_gone(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    deal(api, "a")
    with Proxy(cluster) as proxy:
        switch = Switch(Answer(404, "404 page not found"))
        proxy.inject(
            switch,
            when=lambda request: request.path.startswith(VMIS.path("tenant").partition("v1")[0]),
        )
        with running(proxy.kubeconfig, tmp_path, *QUICK, "--leak-sweep-period", "1"):
            opened(api, POOL_A)
            uid = launch(api, "left", "vm", create_machine(api, "vm"))
            record(api, POOL_A, 5, "left", uid)
            finish(api, "left", "Succeeded", "")
            record(api, POOL_A, 6, "witness", "u")
            wait_recorded(api, POOL_A, {5})
            assert VMIS.path("tenant", "vm") in switch.met
            switch.on = False
            record(api, POOL_A, 6, "witness", "u")
            wait_recorded(api, POOL_A, {5})


JUMPING = """
import os, time
_time = time.time
def jumped():
    try:
        with open(os.environ["CLOCK_JUMP"]) as file:
            jump = float(file.read())
    except (OSError, ValueError):
        return _time()
    open(os.environ["CLOCK_JUMP"] + ".seen", "w").close()
    return _time() + jump
time.time = jumped
"""


@pytest.mark.parametrize("jump", [3600, -3600], ids=["forward", "back"])
def test_a_jump_of_the_clock_frees_nothing(
    cluster: Cluster, api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: int
) -> None:
    """The fault "clock jumps by an hour": graces are counted by a clock that cannot."""
    (tmp_path / "sitecustomize.py").write_text(JUMPING)
    offset = tmp_path / "offset"
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(__file__).parents[2]}")
    monkeypatch.setenv("CLOCK_JUMP", str(offset))
    deal(api, "a", "b")
    with running(cluster.kubeconfig, tmp_path, *PATIENT) as controller:
        opened(api, POOL_A, POOL_B)
        set_ready(api, "a", "Unknown")
        record(api, POOL_A, 5, "lives", create_pod(api, "lives"))
        # Its node is not ready, so it has almost an hour left.
        record(api, POOL_A, 6, "gone", "u")
        record(api, POOL_B, 1, "witness", "u")
        wait_recorded(api, POOL_B, set())
        offset.write_text(str(jump))
        create_node(api, "c")
        controller.wait(lambda: len(controller.entries("Assigned slices")) >= 2, "it goes on")
        record(api, POOL_B, 1, "witness", "u")
        wait_recorded(api, POOL_B, set())
        assert recorded(api, POOL_A) == {5, 6}
        assert Path(f"{offset}.seen").exists()
