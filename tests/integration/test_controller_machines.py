"""Addresses of virtual machines outlive the pods that the machines leave behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.cluster.api import Api
from hack.cluster.server import Cluster
from tests.integration.controller_process import running
from tests.integration.machines import create_machine, delete_machine, kubevirt, launch
from tests.integration.pods import QUICK, deal, delete_pod, finish, opened, record, wait_recorded

POOL_A, POOL_B = "blue-a-10.40.0.0-26", "blue-b-10.40.0.64-26"
OFTEN = (*QUICK, "--leak-sweep-period", "1")


@pytest.fixture
def defined(api: Api) -> Iterator[None]:
    with kubevirt(api):
        yield


@pytest.mark.usefixtures("defined")
@pytest.mark.parametrize("owned", [True, False], ids=["owner", "labels"])
def test_a_migrated_machine_keeps_the_address_of_the_pod_it_left(
    cluster: Cluster, api: Api, tmp_path: Path, owned: bool
) -> None:
    deal(api, "a", "b")
    vmi = create_machine(api, "vm")
    with running(cluster.kubeconfig, tmp_path, *OFTEN):
        opened(api, POOL_A, POOL_B)
        # The guest keeps the address of the pod in which it was started.
        source = launch(api, "left-vm", "vm", vmi, owned=owned)
        record(api, POOL_A, 5, "left-vm", source)
        target = launch(api, "runs-vm", "vm", vmi, owned=owned)
        record(api, POOL_B, 5, "runs-vm", target)
        finish(api, "left-vm", "Succeeded", "")
        record(api, POOL_A, 6, "witness", "u")
        wait_recorded(api, POOL_A, {5})
        delete_pod(api, "left-vm")
        record(api, POOL_A, 6, "witness", "u")
        wait_recorded(api, POOL_A, {5})
        delete_machine(api, "vm")
        wait_recorded(api, POOL_A, set())
        # Its pod still lives.
        wait_recorded(api, POOL_B, {5})
        delete_pod(api, "runs-vm")
        wait_recorded(api, POOL_B, set())


@pytest.mark.usefixtures("defined")
def test_a_machine_is_recognised_by_its_pods_name_when_nobody_saw_the_pod(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    long = "a-machine-with-a-name-so-long-that-the-servers-cut-it"
    cut = f"virt-launcher-{long}"[:57]
    deal(api, "a")
    create_machine(api, "vm-1")
    create_machine(api, long)
    with running(cluster.kubeconfig, tmp_path, *OFTEN) as controller:
        opened(api, POOL_A)
        controller.stop()
    record(api, POOL_A, 5, "virt-launcher-vm-1-abcde", "u")
    record(api, POOL_A, 6, f"{cut}-fghij", "u")
    record(api, POOL_A, 7, "virt-launcher-vm-2-abcde", "u")
    record(api, POOL_A, 8, "vm-1-abcde", "u")
    with running(cluster.kubeconfig, tmp_path, *OFTEN):
        wait_recorded(api, POOL_A, {5, 6})
        delete_machine(api, long)
        wait_recorded(api, POOL_A, {5})


@pytest.mark.usefixtures("defined")
def test_a_machine_that_was_started_anew_is_another_one(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    deal(api, "a")
    with running(cluster.kubeconfig, tmp_path, *OFTEN):
        opened(api, POOL_A)
        uid = launch(api, "virt-launcher-vm-abcde", "vm", create_machine(api, "vm"))
        record(api, POOL_A, 5, "virt-launcher-vm-abcde", uid)
        delete_machine(api, "vm")
        again = create_machine(api, "vm")
        record(api, POOL_A, 6, "next", launch(api, "next", "vm", again))
        delete_pod(api, "virt-launcher-vm-abcde")
        wait_recorded(api, POOL_A, {6})


def test_without_kubevirt_no_name_means_anything(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    deal(api, "a")
    with running(cluster.kubeconfig, tmp_path, *OFTEN):
        opened(api, POOL_A)
        record(api, POOL_A, 5, "virt-launcher-vm-abcde", "u")
        record(api, POOL_A, 6, f"virt-launcher-{'x' * 43}-abcde", "u")
        wait_recorded(api, POOL_A, set())
