"""Random sequences of everything, with lost, late and repeated writes, break none of the rules."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hack.cluster.api import Api
from hack.cluster.server import Cluster
from tests.faults import rules
from tests.faults.history import History
from tests.faults.rules import Replay
from tests.faults.turmoil import Turmoil
from tests.integration.controller_process import (
    POOLS,
    TABLES,
    condition,
    holders_of,
    nad_path,
)
from tests.integration.pods import delete_pod
from tests.shim import forms
from tests.shim.world import World
from whereabouts_fast.ipam import naming
from whereabouts_fast.kube.resource import RESERVATIONS

# The long profile takes other seeds at each run; the seed is in the name of a failed test, and
# TURMOIL_SEED begins with it again.
LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
BEGIN = int(os.environ.get("TURMOIL_SEED") or (time.time() if LONG else 1))
SEEDS = range(BEGIN, BEGIN + (12 if LONG else 2))
STEPS = 150
LIMIT = 60.0
LOG = logging.getLogger(__name__)


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return forms.make(forms.FOLDER, tmp_path_factory.mktemp("shim"))


@pytest.fixture
def turmoil(cluster: Cluster, api: Api, shim: Path, tmp_path: Path, seed: int) -> Iterator[Turmoil]:
    turmoil = Turmoil(cluster, World(cluster, api, shim, tmp_path), tmp_path, seed)
    try:
        yield turmoil
    finally:
        turmoil.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_no_rule_breaks_in_turmoil_and_it_settles(api: Api, turmoil: Turmoil, seed: int) -> None:
    with History(api) as history:
        try:
            turmoil.run(STEPS)
            turmoil.calm_down()
            settle(turmoil)
            end(turmoil)
        finally:
            replay = Replay(turmoil.given_up)
            replay.play(history.versions())
            LOG.warning("seed %d: %s; %s", seed, dict(turmoil.done), dict(replay.seen))
        replay.confirm(turmoil.given)
        assert replay.seen["taken"] > STEPS / 10, "it was about addresses"
        assert replay.seen["slices freed"] > 0, "it was about slices"


def settle(turmoil: Turmoil) -> None:
    """Wait until live pods hold what they were given, nobody else anything, and nodes a slice."""
    api = turmoil.api
    wanted = {one.pod.container: one.address for one in turmoil.pods.values() if one.address}
    held = until(lambda: entries(api), lambda found: found.keys() == wanted.keys())
    assert {container: address for container, (_, address) in held.items()} == wanted
    until(lambda: unserved(turmoil), lambda found: not found)


def end(turmoil: Turmoil) -> None:
    """Without pods and networks, nothing stays."""
    api = turmoil.api
    for name in turmoil.pods:
        delete_pod(api, name)
    until(lambda: entries(api), lambda found: not found)
    for name in turmoil.ipam:
        api.delete(f"{nad_path()}/{name}")
    until(lambda: left(api), lambda found: not found)


def unserved(turmoil: Turmoil) -> list[Any]:
    """Return the nodes that ought to have an open slice, and slices and pools without the other."""
    wrong: list[Any] = []
    pools = [item["spec"] for item in turmoil.api.get(POOLS)["items"]]
    mine = {(one["node"], one["range"]): one for one in pools if one.get("node")}
    held: dict[tuple[str, str], str] = {}
    for item in turmoil.api.get(TABLES)["items"]:
        states = {(node, cidr): state for cidr, (node, state) in holders_of(item).items()}
        held |= states
        name = item["metadata"]["name"]
        if turmoil.ipam.get(name, {}).get("node_slice_size"):
            served = {node for (node, _), state in states.items() if state == "Active"}
            full = condition(turmoil.api, "Exhausted", name).get("status") == "True"
            wrong += [] if full else sorted(turmoil.takes_part(name) ^ served)
    wrong += sorted(mine.keys() ^ held.keys())
    return wrong + [
        (key, state)
        for key, state in held.items()
        if key in mine and bool(mine[key].get("closed")) != (state == "Draining")
    ]


def left(api: Api) -> list[str]:
    """Return all objects but the pools that only files on nodes asked for."""
    return [
        f"{path}/{item['metadata']['name']}"
        for path in (POOLS, TABLES, RESERVATIONS.path("ipam-system"))
        for item in api.get(path)["items"]
        if path != POOLS or item["spec"].get("node") or naming.ANNOTATION_ATTACHED in notes(item)
    ]


def notes(item: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = item["metadata"].get("annotations", {})
    return found


def entries(api: Api) -> dict[str, tuple[str, str]]:
    """Container -> pool and address."""
    found = {}
    for item in api.get(POOLS)["items"]:
        for offset, entry in item["spec"]["allocations"].items():
            found[entry["id"]] = item["metadata"]["name"], rules.address(item["spec"], offset)
    return found


def until(look: Callable[[], Any], holds: Callable[[Any], bool]) -> Any:
    """Poll until something holds; a minute at most."""
    deadline = time.monotonic() + LIMIT
    while not holds(found := look()):
        assert time.monotonic() < deadline, f"does not settle: {found}"
        time.sleep(0.1)
    return found
