"""How long does one call take, in slices and in a shared pool, with few nodes and with many?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from benchmarks.shim.plugin import Plugin
from benchmarks.shim.population import SHARED, SLICED
from benchmarks.timing import interleaved, run

VERBS = ("VERSION", "ADD", "DEL")
ROUNDS, ROUNDS_AMONG_MANY = 40, 10


def measure(plugins: Sequence[Plugin]) -> dict[str, Mapping[str, float]]:
    """Return the median ms of each call among few nodes, by "plugin verb"."""
    return {
        "slices": _calls(plugins, SLICED, ROUNDS),
        "shared pool": _calls(plugins, SHARED, ROUNDS),
    }


def among_many(plugins: Sequence[Plugin]) -> dict[str, Mapping[str, float]]:
    """Return the same for slices when the cluster has many nodes."""
    return {"slices": _calls(plugins, SLICED, ROUNDS_AMONG_MANY)}


def _calls(plugins: Sequence[Plugin], network: str, rounds: int) -> Mapping[str, float]:
    subjects = [partial(_turn, plugin, network) for plugin in plugins]
    return interleaved(subjects, rounds)


def _turn(plugin: Plugin, network: str, number: int) -> Mapping[str, float]:
    return {
        f"{plugin.name} {verb}": run(plugin.call(verb, number, network)).seconds * 1000
        for verb in VERBS
    }
