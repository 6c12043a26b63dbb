"""Virtual machines of KubeVirt's shape: the kind, its objects, and their pods."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hack.cluster.api import Api
from tests.integration.controller_process import LIMIT
from tests.integration.pods import create_pod
from whereabouts_fast.kube.resource import CRDS, VMIS

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": VMIS.full_name},
    "spec": {
        "group": VMIS.group,
        "scope": "Namespaced",
        "names": {"kind": VMIS.kind, "plural": VMIS.plural, "singular": "virtualmachineinstance"},
        "versions": [
            {
                "name": VMIS.version,
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}


@contextmanager
def kubevirt(api: Api) -> Iterator[None]:
    """The kind is defined inside the block."""
    api.create(CRDS.path(), DEFINITION)
    try:
        api.wait_for(CRDS.path(), lambda found: any(_served(crd) for crd in found))
        # The server has no event for "the storage is ready": asking is the only way.
        deadline = time.monotonic() + LIMIT
        while api.exchange("GET", VMIS.path("tenant")).status != 200:
            assert time.monotonic() < deadline, "the kind is not served"
            time.sleep(0.02)
        yield
    finally:
        api.delete(CRDS.path(name=VMIS.full_name))
        api.wait_for(
            CRDS.path(),
            lambda found: not found,
            fieldSelector=f"metadata.name={VMIS.full_name}",
        )


def _served(crd: dict[str, Any]) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or []
    established = any(c["type"] == "Established" and c["status"] == "True" for c in conditions)
    return crd["metadata"]["name"] == VMIS.full_name and established


def create_machine(api: Api, name: str) -> str:
    """Create a running VirtualMachineInstance and return its uid."""
    body = {
        "apiVersion": VMIS.api_version,
        "kind": VMIS.kind,
        "metadata": {"name": name},
        "spec": {"domain": {"devices": {"interfaces": [{"name": "blue", "bridge": {}}]}}},
        "status": {"phase": "Running"},
    }
    return str(api.create(VMIS.path("tenant"), body)["metadata"]["uid"])


def delete_machine(api: Api, name: str) -> None:
    """Delete a VirtualMachineInstance."""
    api.delete(VMIS.path("tenant", name))


def launch(api: Api, pod: str, machine: str, uid: str, *, owned: bool = True) -> str:
    """Create the pod that a machine runs in and return its uid; else only labels say so."""
    owner = {
        "apiVersion": VMIS.api_version,
        "kind": VMIS.kind,
        "name": machine,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    labels = {
        "kubevirt.io": "virt-launcher",
        "kubevirt.io/created-by": uid,
        "vm.kubevirt.io/name": machine,
    }
    return create_pod(api, pod, labels=labels, ownerReferences=[owner] if owned else [])
