"""How many ADDs a second when ten run at a time, on one node and on ten?

Of each burst the addresses are compared: two alike would make the rate worthless.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial

from benchmarks.shim.plugin import Plugin
from benchmarks.shim.population import FEW, SHARED, SLICED
from benchmarks.timing import RunError, at_once, interleaved, run

CALLS, AT_ONCE = 60, 10
ROUNDS = 3
_APART = 1000  # numbers of pods from burst to burst


def measure(plugins: Sequence[Plugin]) -> dict[str, Mapping[str, float]]:
    """Return the median rates in ADDs per second, and the time of each burst's slowest."""
    return {
        f"{what}, {nodes} node{'s' * (nodes > 1)}": interleaved(
            [partial(_burst, plugin, network, nodes) for plugin in plugins], ROUNDS, warm_up=0
        )
        for what, network in (("slices", SLICED), ("shared pool", SHARED))
        for nodes in (1, FEW)
    }


def _burst(plugin: Plugin, network: str, nodes: int, round_number: int) -> Mapping[str, float]:
    first = _APART * (1 + 2 * round_number + (nodes > 1))
    where = [index % nodes for index in range(CALLS)]
    for node in range(nodes):  # so that each has met its network before
        for verb in ("ADD", "DEL"):
            run(plugin.call(verb, first + CALLS + node, network, node))
    adds = [plugin.call("ADD", first + i, network, where[i]) for i in range(CALLS)]
    seconds, ran = at_once(adds, AT_ONCE)
    given = {json.loads(one.output)["ips"][0]["address"] for one in ran}
    if len(given) < CALLS:
        raise RunError(f"{plugin.name} gave {len(given)} addresses to {CALLS} pods")
    return {
        f"{plugin.name} per s": CALLS / seconds,
        f"{plugin.name} slowest ms": max(one.seconds for one in ran) * 1000,
    }
