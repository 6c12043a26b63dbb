"""The static executable: what it is made of, and that the same is made each time."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cni.static import base, link
from tests.shim import forms
from tests.shim.world import World, config, pod

pytestmark = pytest.mark.parametrize("form", [forms.STATIC], indirect=True)


def test_the_record_names_what_is_linked_in(shim: Path) -> None:
    record = json.loads(shim.with_name("whereabouts.json").read_text())
    versions = {entry["name"]: entry["version"] for entry in record}
    assert list(versions)[:3] == ["python3.11", "openssl", "glibc"]
    assert all(
        re.fullmatch(r"pkg:deb/debian/\S+@\S+\?arch=source", one["source"]) for one in record
    )
    content = shim.read_bytes()
    upstream = {name: re.split("[-~]", version)[0] for name, version in versions.items()}
    assert f"OpenSSL {upstream['openssl']} ".encode() in content
    assert f"{upstream['python3.11']}".encode() in content


def test_the_public_way_to_start_python_works_as_well(
    world: World, shim: Path, tmp_path: Path
) -> None:
    found = base_of_shim()
    full = link.link(found, tmp_path / "full", full_start=True)
    assert full.stat().st_size > shim.stat().st_size
    world.slices("n1")
    node = world.node("n1")
    node.shim = full
    assert node.add(pod(), config()).address == "10.40.0.1"


def test_two_builds_are_alike(shim: Path, tmp_path: Path) -> None:
    """Whatever else lives in the process that builds."""
    again = link.link(base_of_shim(), tmp_path)
    assert again.read_bytes() == shim.read_bytes()


def base_of_shim() -> base.Base:
    found = base.find()
    assert found is not None
    return found
