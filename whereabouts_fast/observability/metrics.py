"""The one metrics registry of a process: every name, label and known label value.

Names with the prefix `whereabouts_fast_` are ours; `workqueue_*`, `rest_client_*` and
`leader_election_master_status` are those of client-go, so that existing dashboards work.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from whereabouts_fast.observability.client_metrics import ClientMetrics

PREFIX = "whereabouts_fast_"
SLICE_STATES = ("active", "draining", "cooling", "free")
ADDRESS_STATES = ("allocated", "free", "reserved", "excluded")
ASSIGN_REASONS = ("dealt", "grown", "returned", "rebuilt")
RECLAIM_REASONS = ("node_gone", "network_gone", "network_changed", "idle")
LEAK_REASONS = ("gone", "finished", "recreated", "superseded", "reservation")
WRITE_KINDS = ("IPPool", "NodeSlicePool", "OverlappingRangeIPReservation")
WRITE_RESULTS = ("ok", "conflict", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFigures:
    """What one network's gauges show.

    `network` is the name of its NodeSlicePool, or of the pool that all nodes share, which has
    neither `slices` nor `waiting`. `addresses` sum to the size of the range. `nodes`: the same by
    node, each summing to the size of its slices.
    """

    network: str
    addresses: Mapping[str, float]
    slices: Mapping[str, float] | None = None
    waiting: float | None = None
    nodes: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


class Metrics(ClientMetrics):
    """All metrics of a process; made once and passed on, never global."""

    def __init__(self, revision: str = "") -> None:
        # The creation time of each counter doubles the series, and nobody reads it.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry(auto_describe=True)
        super().__init__(self.registry)
        self._census = _Census()
        self.registry.register(self._census)
        prometheus_client.ProcessCollector(registry=self.registry)
        self._assignments = Counter(
            PREFIX + "slice_assignments",
            "Slices given to nodes; `reason`: " + ", ".join(ASSIGN_REASONS) + ".",
            ["network", "reason"],
            registry=self.registry,
        )
        self._reclaims = Counter(
            PREFIX + "slice_reclaims",
            "Slices that became free again; `reason`: " + ", ".join(RECLAIM_REASONS) + ".",
            ["network", "reason"],
            registry=self.registry,
        )
        self._writes = Counter(
            PREFIX + "writes",
            "Writes to the API server; `kind`: "
            + ", ".join(WRITE_KINDS)
            + "; `result`: "
            + ", ".join(WRITE_RESULTS)
            + ".",
            ["kind", "result"],
            registry=self.registry,
        )
        for kind in WRITE_KINDS:
            for result in WRITE_RESULTS:
                self._writes.labels(kind, result)
        self._candidates = Gauge(
            PREFIX + "leaks_candidates",
            "Addresses and reservations whose pods seem to be gone, before their grace is over;"
            " `reason`: " + ", ".join(LEAK_REASONS) + ".",
            ["reason"],
            registry=self.registry,
        )
        self._released = Counter(
            PREFIX + "leaks_released",
            "Released addresses and reservations whose pods were gone; `reason`: "
            + ", ".join(LEAK_REASONS)
            + ".",
            ["reason"],
            registry=self.registry,
        )
        for reason in LEAK_REASONS:
            self._candidates.labels(reason)
            self._released.labels(reason)
        build = Gauge(
            PREFIX + "build_info",
            "1, labelled with what is running.",
            ["version", "revision", "python"],
            registry=self.registry,
        )
        build.labels(version("whereabouts-fast"), revision, platform.python_version()).set(1)

    def census(self, count: Callable[[], Iterable[NetworkFigures]]) -> None:
        """Have the network gauges counted at each scrape, so that vanished networks vanish."""
        self._census.count = count

    def inconsistencies(self, count: Callable[[], Mapping[tuple[str, str], int]]) -> None:
        """Have what lastingly does not fit counted at each scrape, by network and reason."""
        self._census.inconsistencies = count

    def network_appeared(self, network: str) -> None:
        """Start the counters of a network at zero."""
        for reason in ASSIGN_REASONS:
            self._assignments.labels(network, reason)
        for reason in RECLAIM_REASONS:
            self._reclaims.labels(network, reason)

    def network_vanished(self, network: str) -> None:
        """Drop the counters of a network."""
        self._assignments.remove_by_labels({"network": network})
        self._reclaims.remove_by_labels({"network": network})

    def slices_assigned(self, network: str, reason: str, count: int) -> None:
        """Count slices given to nodes; `reason` is one of ASSIGN_REASONS."""
        self._assignments.labels(network, reason).inc(count)

    def slices_reclaimed(self, network: str, reason: str, count: int) -> None:
        """Count slices that became free; `reason` is one of RECLAIM_REASONS."""
        self._reclaims.labels(network, reason).inc(count)

    def leak_candidates(self, reason: str, change: int) -> None:
        """Count candidates that came or went; `reason` is one of LEAK_REASONS."""
        self._candidates.labels(reason).inc(change)

    def leak_released(self, reason: str) -> None:
        """Count a release; `reason` is one of LEAK_REASONS."""
        self._released.labels(reason).inc()

    def written(self, kind: str, result: str) -> None:
        """Count a write; `kind` is one of WRITE_KINDS, `result` one of WRITE_RESULTS."""
        self._writes.labels(kind, result).inc()

    def render(self) -> tuple[bytes, str]:
        """Return the exposition text and its content type."""
        return prometheus_client.generate_latest(self.registry), (
            prometheus_client.CONTENT_TYPE_PLAIN_0_0_4
        )


class _Census(Collector):
    """Gauges that are a view of the caches, computed when somebody looks."""

    def __init__(self) -> None:
        self.count: Callable[[], Iterable[NetworkFigures]] = tuple
        self.inconsistencies: Callable[[], Mapping[tuple[str, str], int]] = dict

    def describe(self) -> Iterator[GaugeMetricFamily]:
        return iter(_families())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        families = slices, addresses, nodes, waiting, inconsistencies = _families()
        for figures in self.count():
            name = figures.network
            for state in ADDRESS_STATES:
                addresses.add_metric([name, state], figures.addresses.get(state, 0))
                for node, counts in figures.nodes.items():
                    nodes.add_metric([name, node, state], counts.get(state, 0))
            if figures.slices is not None:
                for state in SLICE_STATES:
                    slices.add_metric([name, state], figures.slices.get(state, 0))
            if figures.waiting is not None:
                waiting.add_metric([name], figures.waiting)
        for labels, count in self.inconsistencies().items():
            inconsistencies.add_metric(labels, count)
        return iter(families)


def _families() -> tuple[GaugeMetricFamily, ...]:
    return (
        GaugeMetricFamily(
            PREFIX + "slices",
            "Slices; `state`: " + ", ".join(SLICE_STATES) + ".",
            labels=["network", "state"],
        ),
        GaugeMetricFamily(
            PREFIX + "addresses",
            "Addresses; `state`: "
            + ", ".join(ADDRESS_STATES)
            + "; they sum to the size of the range. `network` is the name of the NodeSlicePool or,"
            " in classic mode, of the IPPool.",
            labels=["network", "state"],
        ),
        GaugeMetricFamily(
            PREFIX + "node_addresses",
            "The same for the slices of each node; only with --node-addresses.",
            labels=["network", "node", "state"],
        ),
        GaugeMetricFamily(PREFIX + "nodes_waiting", "Nodes without a slice.", labels=["network"]),
        GaugeMetricFamily(
            PREFIX + "inconsistencies",
            "Findings that have lasted; `reason`: see events.md. `network` is empty where it is not"
            " known.",
            labels=["network", "reason"],
        ),
    )
