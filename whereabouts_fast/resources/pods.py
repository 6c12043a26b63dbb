"""Pods, of which only the metadata is watched; single ones are read whole before a release."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from whereabouts_fast.ipam import address
from whereabouts_fast.ipam.leaks import Pod
from whereabouts_fast.resources.metadata import read_time

# A static pod's uid as its kubelet tells it to the runtime.
CONFIG_HASH = "kubernetes.io/config.hash"
NETWORK_STATUS = ("k8s.v1.cni.cncf.io/network-status", "k8s.v1.cni.cncf.io/networks-status")
# KubeVirt: the label of old versions' pods has the name, the other one the uid.
_MACHINE_KIND = "VirtualMachineInstance"
_MACHINE_NAMES = ("vm.kubevirt.io/name", "kubevirt.io/domain")
_MACHINE_UID = "kubevirt.io/created-by"
_LAUNCHER = ("kubevirt.io", "virt-launcher")
_FINISHED = ("Succeeded", "Failed")


def decode_pod(raw: dict[str, Any]) -> Pod:
    """Decode a Pod or its PartialObjectMetadata; what cannot be read is left out."""
    metadata = _mapping(raw.get("metadata"))
    notes = _mapping(metadata.get("annotations"))
    machine, machine_uid = _machine(metadata)
    spec, status = _mapping(raw.get("spec")), _mapping(raw.get("status"))
    return Pod(
        podref=f"{_text(metadata, 'namespace')}/{_text(metadata, 'name')}",
        uid=_text(metadata, "uid"),
        hash=_text(notes, CONFIG_HASH),
        addresses=_addresses(notes),
        machine=machine,
        machine_uid=machine_uid,
        node=_text(spec, "nodeName"),
        created=read_time(_text(metadata, "creationTimestamp")) if spec else None,
        finished=status.get("phase") in _FINISHED,
    )


def _machine(metadata: dict[str, Any]) -> tuple[str, str]:
    owners = metadata.get("ownerReferences")
    for owner in owners if isinstance(owners, list) else ():
        one = _mapping(owner)
        group = _text(one, "apiVersion").partition("/")[0]
        if one.get("kind") == _MACHINE_KIND and group == "kubevirt.io":
            return _text(one, "name"), _text(one, "uid")
    labels = _mapping(metadata.get("labels"))
    if labels.get(_LAUNCHER[0]) == _LAUNCHER[1]:
        names = (name for key in _MACHINE_NAMES if (name := _text(labels, key)))
        return next(names, ""), _text(labels, _MACHINE_UID)
    return "", ""


def _addresses(notes: dict[str, Any]) -> tuple[int, ...]:
    text = next((notes[key] for key in NETWORK_STATUS if notes.get(key)), None)
    if not isinstance(text, str):
        return ()
    try:
        status = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    return tuple(_numbers(status))


def _numbers(status: object) -> Iterator[int]:
    for network in status if isinstance(status, list) else ():
        found = _mapping(network).get("ips")
        for text in found if isinstance(found, list) else ():
            try:
                yield address.parse(str(text).partition("/")[0])[1]
            except address.AddressError:
                continue


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(values: dict[str, Any], key: str) -> str:
    value = values.get(key)
    return value if isinstance(value, str) else ""
