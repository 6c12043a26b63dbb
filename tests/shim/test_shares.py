"""A share that grows under many calls at once: the plugin asks, the controller deals."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.integration.controller_process import (
    create_nad,
    create_node,
    events,
    holders,
    running,
    wait_open,
)
from tests.shim.world import World, config, pod

BURST = 100
# Room for a machine that does many other things; what it costs is what benchmarks are for.
PATIENT: dict[str, Any] = {"wait_seconds": 25, "address_cooldown": 0}


def test_a_burst_on_one_node_grows_its_share_without_a_failed_add(
    world: World, tmp_path: Path
) -> None:
    """16 slices of /28, four nodes: 100 ADDs on one of them, in one call each."""
    nodes = ["n1", "n2", "n3", "n4"]
    for name in nodes:
        create_node(world.api, name)
    create_nad(world.api, node_slice_size="/28")
    first = {f"blue-{name}-10.40.0.{16 * at}-28" for at, name in enumerate(nodes)}
    with running(world.cluster.kubeconfig, tmp_path) as controller:
        wait_open(world.api, first)
        node = world.node("n1", **PATIENT)
        with ThreadPoolExecutor(8) as threads:
            outcomes = list(
                threads.map(lambda _: node.add(pod(), config(size="/28")), range(BURST))
            )
        assert [outcome.code for outcome in outcomes] == [0] * BURST
        assert len({outcome.address for outcome in outcomes}) == BURST
        assert controller.stop() == 0
    held = Counter(name for name, _ in holders(world.api).values())
    # With seven 11 of 111 addresses are free, less than a tenth.
    assert held == {"n1": 8, "n2": 1, "n3": 1, "n4": 1}
    assert events(world.api, "AddressesExhausted") == []
