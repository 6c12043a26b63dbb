"""Every verb in every CNI version, word for word: golden/<verb>.json holds version -> answer.

UPDATE_GOLDEN=1 writes the files anew; look at the difference before you keep it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cni.protocol import VERBS, VERSIONS
from hack.cluster.simnode import Outcome
from tests.shim.test_several_ranges import RANGES, dealt, ranged
from tests.shim.world import World, pod

GOLDEN = Path(__file__).with_name("golden")
ONE = pod("web-0", uid="uid-web-0", container="c0ffee")


def asked(version: str) -> dict[str, Any]:
    """Dual stack with everything that a result can show."""
    whole = ranged(
        RANGES[0],
        RANGES[2],
        gateway="10.40.0.254",
        routes=[{"dst": "0.0.0.0/0", "mtu": 1400}, {"dst": "fd00::/8", "gw": "fd10::1"}],
        dns={"nameservers": ["10.40.0.53"], "search": ["example.test"]},
    )
    return {**whole, "cniVersion": version}


def answers(world: World, version: str) -> dict[str, Outcome]:
    """Run all verbs in the order of a container's life."""
    node, config = world.node("n1"), asked(version)
    broken = {**config, "ipam": {**config["ipam"], "ipRanges": [{"range": "10.40.0.0/99"}]}}
    added = node.add(ONE, config)
    listed = {"cni.dev/valid-attachments": [{"containerID": ONE.container, "ifname": "net1"}]}
    return {
        "VERSION": node.call("VERSION", None, config),
        "misuse": node.add(ONE, broken),
        "ADD": added,
        "CHECK": node.call("CHECK", ONE, {**config, "prevResult": added.result}),
        "STATUS": node.call("STATUS", None, config),
        "GC": node.call("GC", None, {**config, **listed}),
        "DEL": node.delete(ONE, {**config, "prevResult": added.result}),
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_every_verb_answers_in_the_words_of_the_version(world: World, version: str) -> None:
    pools = dealt(world)
    found = answers(world, version)
    assert set(found) == {*VERBS, "misuse"}
    for verb, outcome in found.items():
        shown = {"exit": outcome.code, "stdout": outcome.result or ""}
        path = GOLDEN / f"{verb}.json"
        golden = json.loads(path.read_text()) if path.exists() else {}
        if os.environ.get("UPDATE_GOLDEN"):
            golden[version] = shown
            path.write_text(json.dumps(golden, indent=2) + "\n")
        assert golden[version] == shown, verb
        assert outcome.stderr == ""
    assert [world.allocations(name) for name in pools] == [{}, {}, {}]


def test_no_version_is_answered_as_the_first_one(world: World) -> None:
    dealt(world)
    config = asked("")
    del config["cniVersion"]
    golden = json.loads((GOLDEN / "ADD.json").read_text())
    assert world.node("n1").add(ONE, config).result == golden["0.1.0"]["stdout"]
