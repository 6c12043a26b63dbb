"""Whatever lies on the node, flat file, names, marks and what is no hint: an answer in time."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cni import hostile
from tests.unit.cni.hostile import Called, Clock
from tests.unit.cni.test_hostile_calls import KEYS, hold, place, values, verbs

flat_keys = (
    *(*KEYS, "kubernetes", "hints_dir", "log_file", "log_level", "add_deadline_seconds"),
    *("del_deadline_seconds", "standalone", "overlap_reservations", "type", "configuration_path"),
)


def flattened(verb: str, folder: Path, flat: bytes, name: bytes | None = None) -> Called:
    """A call whose kubeconfig is named by the flat file alone, if by anything."""
    (folder / "flat").write_bytes(flat)
    environment = {**hostile.ENVIRONMENT, "CNI_COMMAND": verb}
    if name is not None:
        (folder / "nodename").write_bytes(name)
        del environment["NODENAME"]
    ipam = {**hostile.CONFIG["ipam"], "configuration_path": str(folder / "flat")}
    raw = json.dumps({**hostile.CONFIG, "ipam": ipam}).encode()
    return hostile.call(raw, environment, [], Clock())


@given(
    verbs,
    st.binary(max_size=60) | values.map(lambda value: json.dumps(value).encode()),
)
def test_a_hostile_flat_file(verb: str, flat: bytes) -> None:
    with place() as folder:
        hold(verb, "1.1.0", flattened(verb, folder, flat))


@given(verbs, st.dictionaries(st.sampled_from(flat_keys), values, max_size=4))
def test_hostile_keys_in_a_flat_file(verb: str, changes: dict[str, Any]) -> None:
    with place() as folder:
        # No file outside the folder may be written for a test's sake.
        for key in ("hints_dir", "log_file"):
            if isinstance(changes.get(key), str):
                changes[key] = f"{folder}/{changes[key].replace(chr(0), '')}"
        kubernetes = {"kubeconfig": str(folder / "kubeconfig")}
        flat = json.dumps({"kubernetes": kubernetes, **changes}).encode()
        called = flattened(verb, folder, flat)
        if verb == "ADD" and called.code == 0:
            assert called.output[0]["ips"]
        elif called.code:
            assert called.output[0]["code"] != 999, called.output


@given(verbs, st.binary(max_size=30))
def test_a_hostile_node_name(verb: str, name: bytes) -> None:
    with place() as folder:
        kubernetes = {"kubeconfig": str(folder / "kubeconfig")}
        flat = json.dumps({"kubernetes": kubernetes, "hints_dir": f"{folder}/hints"}).encode()
        hold(verb, "1.1.0", flattened(verb, folder, flat, name))


@pytest.mark.parametrize("verb", ["ADD", "CHECK", "DEL", "GC", "STATUS"])
@pytest.mark.parametrize("kind", ["directory", "loop", "pipe", "dangling link", "unreadable bytes"])
def test_things_in_the_hints_directory_that_are_no_hints(verb: str, kind: str) -> None:
    with place() as folder:
        hints, clock = folder / "hints", Clock()
        config = hostile.configured(folder)
        raw = json.dumps(config).encode()
        added = {**hostile.ENVIRONMENT, "CNI_COMMAND": "ADD"}
        assert hostile.call(raw, added, [], clock).code == 0
        for name in ("blue@10.40.0.0_24.json", "other.json", "del/c1:net1", "blue.json.tmp"):
            path = hints / name
            path.parent.mkdir(mode=0o700, exist_ok=True)
            path.unlink(missing_ok=True)
            if kind == "directory":
                path.mkdir()
            elif kind == "loop":
                path.symlink_to(path.name)
            elif kind == "pipe":
                os.mkfifo(path)
            elif kind == "dangling link":
                path.symlink_to("/nowhere/at/all")
            else:
                path.write_bytes(b"\xff" * 100)
        called = hostile.call(raw, {**added, "CNI_COMMAND": verb}, [], clock)
        hold(verb, "1.1.0", called)
