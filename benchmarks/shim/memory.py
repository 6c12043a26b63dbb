"""How much memory does a call have at its peak?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from benchmarks.shim.calls import VERBS
from benchmarks.shim.plugin import Plugin
from benchmarks.timing import interleaved, peak_memory

ROUNDS = 3


def measure(plugins: Sequence[Plugin]) -> Mapping[str, float]:
    """Return the median MB of each call."""
    return interleaved([partial(_turn, plugin) for plugin in plugins], ROUNDS, warm_up=1)


def _turn(plugin: Plugin, number: int) -> Mapping[str, float]:
    return {f"{plugin.name} {verb}": peak_memory(plugin.call(verb, number)) for verb in VERBS}
