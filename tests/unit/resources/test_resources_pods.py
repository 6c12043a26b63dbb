"""Pods as slim values; nothing that stands in them can make decoding fail."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whereabouts_fast.ipam import address
from whereabouts_fast.resources.pods import decode_pod

STATUS = "k8s.v1.cni.cncf.io/network-status"


def raw(annotations: Any = None, **metadata: Any) -> dict[str, Any]:
    named = {"name": "a", "namespace": "tenant", "uid": "u", **metadata}
    return {"metadata": named if annotations is None else {**named, "annotations": annotations}}


def numbers(*texts: str) -> tuple[int, ...]:
    return tuple(address.parse(text)[1] for text in texts)


def test_all_addresses_of_network_status_are_kept() -> None:
    """Case T21: whatever interface and default flag they have."""
    status = [
        {"name": "cbr0", "interface": "eth0", "ips": ["10.244.0.3"], "default": True},
        {"name": "tenant/blue", "interface": "net1", "ips": ["10.40.0.7", "fd10::7"]},
        {"name": "tenant/plain"},
    ]
    pod = decode_pod(raw({STATUS: json.dumps(status)}))
    assert pod.podref == "tenant/a"
    assert pod.addresses == numbers("10.244.0.3", "10.40.0.7", "fd10::7")


def test_the_older_name_of_the_annotation_counts_too() -> None:
    status = json.dumps([{"ips": ["10.40.0.7"]}])
    pod = decode_pod(raw({"k8s.v1.cni.cncf.io/networks-status": status}))
    assert pod.addresses == numbers("10.40.0.7")


def test_a_static_pod_has_its_hash() -> None:
    """Case U1."""
    assert decode_pod(raw({"kubernetes.io/config.hash": "1f2e"})).hash == "1f2e"


def test_the_machine_is_the_owner_or_what_the_labels_say() -> None:
    owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "vm"}
    labels = {"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": "vmi-uid"}
    owned = decode_pod(raw(ownerReferences=[{**owner, "uid": "x"}], labels=labels))
    assert (owned.machine, owned.machine_uid) == ("vm", "x")
    labelled = decode_pod(raw(labels={**labels, "vm.kubevirt.io/name": "vm"}))
    assert (labelled.machine, labelled.machine_uid) == ("vm", "vmi-uid")
    foreign = {**owner, "apiVersion": "example.org/v1"}
    assert decode_pod(raw(ownerReferences=[foreign])).machine == ""
    assert decode_pod(raw(labels={"vm.kubevirt.io/name": "vm"})).machine == ""


def test_a_whole_pod_tells_its_node_age_and_end() -> None:
    whole = {
        **raw(creationTimestamp="1970-01-01T00:01:00Z"),
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Failed"},
    }
    pod = decode_pod(whole)
    assert (pod.node, pod.created, pod.finished) == ("n1", 60.0, True)
    assert not decode_pod({**whole, "status": {"phase": "Running"}}).finished


@pytest.mark.parametrize(
    "text", ["", "x", "{}", "[1, null]", '[{"ips": 3}]', '[{"ips": ["x", 5]}]', "[" * 9999]
)
def test_an_unreadable_status_names_no_address(text: str) -> None:
    assert decode_pod(raw({STATUS: text})).addresses == ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(metadata=JSON, notes=JSON, owners=JSON, status=JSON)
def test_no_object_makes_decoding_fail(metadata: Any, notes: Any, owners: Any, status: Any) -> None:
    decode_pod({"metadata": metadata, "spec": notes, "status": status})
    decode_pod(raw(notes, ownerReferences=owners, labels=owners))
    decode_pod(raw({STATUS: json.dumps(status), "kubernetes.io/config.hash": notes}))
