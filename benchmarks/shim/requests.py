"""Which requests does a steady call send? Exact, from the API server's audit log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from benchmarks.shim.plugin import Plugin
from benchmarks.shim.population import SHARED, SLICED
from benchmarks.timing import run
from hack.cluster.server import Cluster

_NUMBER = -1


def measure(plugins: Sequence[Plugin], cluster: Cluster) -> dict[str, dict[str, int]]:
    """Return how often each request is sent, by "plugin verb network"."""
    found = {}
    for plugin in plugins:
        for network, what in ((SLICED, "slices"), (SHARED, "shared pool")):
            for verb in ("ADD", "DEL"):
                since = cluster.audit.mark()
                run(plugin.call(verb, _NUMBER, network))
                sent = Counter(
                    f"{one.verb} {one.resource}"
                    for one in cluster.audit.entries(since, cluster.audit.mark())
                    if one.namespace == plugin.namespace
                )
                found[f"{plugin.name} {verb}, {what}"] = dict(sent)
    return found
