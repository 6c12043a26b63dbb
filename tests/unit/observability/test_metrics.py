"""What dashboards and alerts may rely on."""

from __future__ import annotations

from whereabouts_fast.kube.reflector import End
from whereabouts_fast.observability.client_metrics import RESTART_REASONS
from whereabouts_fast.observability.metrics import Metrics, NetworkFigures


def value(metrics: Metrics, sample: str, /, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(sample, labels)


def test_known_label_sets_start_at_zero() -> None:
    metrics = Metrics()
    metrics.network_appeared("blue")
    metrics.queue.known("spaces")
    name = "whereabouts_fast_slice_assignments_total"
    assert value(metrics, name, network="blue", reason="dealt") == 0
    assert value(metrics, "workqueue_adds_total", name="spaces") == 0
    metrics.watching("nodes")
    for reason in RESTART_REASONS:
        name = "whereabouts_fast_watch_restarts_total"
        assert value(metrics, name, resource="nodes", reason=reason) == 0
    for name in ("cache_synced", "cache_objects", "cache_undecodable_total"):
        assert value(metrics, f"whereabouts_fast_{name}", resource="nodes") == 0
    metrics.may_drop(["InvalidNetworkConfig"])
    name = "whereabouts_fast_events_dropped_total"
    assert value(metrics, name, reason="InvalidNetworkConfig") == 0
    assert value(metrics, "whereabouts_fast_writes_total", kind="IPPool", result="conflict") == 0


def test_network_gauges_are_counted_when_somebody_looks() -> None:
    metrics = Metrics()
    seen = [
        NetworkFigures(
            network="blue",
            slices={"active": 3, "free": 1},
            addresses={"allocated": 5, "free": 249},
            waiting=2,
            nodes={"n1": {"allocated": 5}},
        ),
        NetworkFigures(network="10.0.0.0-24", addresses={"free": 254}),
    ]
    metrics.census(lambda: seen)
    assert value(metrics, "whereabouts_fast_slices", network="blue", state="active") == 3
    assert value(metrics, "whereabouts_fast_slices", network="blue", state="draining") == 0
    assert value(metrics, "whereabouts_fast_nodes_waiting", network="blue") == 2
    name = "whereabouts_fast_node_addresses"
    assert value(metrics, name, network="blue", node="n1", state="allocated") == 5
    shared = "10.0.0.0-24"
    assert value(metrics, "whereabouts_fast_addresses", network=shared, state="free") == 254
    for name in ("whereabouts_fast_slices", "whereabouts_fast_nodes_waiting"):
        assert f'{name}{{network="{shared}"' not in metrics.render()[0].decode()
    seen.clear()
    assert value(metrics, "whereabouts_fast_nodes_waiting", network="blue") is None


def test_counters_of_a_vanished_network_are_dropped() -> None:
    metrics = Metrics()
    metrics.network_appeared("blue")
    metrics.slices_assigned("blue", "dealt", 2)
    name = "whereabouts_fast_slice_assignments_total"
    assert value(metrics, name, network="blue", reason="dealt") == 2
    metrics.network_vanished("blue")
    assert value(metrics, name, network="blue", reason="dealt") is None


def test_names_of_client_go_are_kept() -> None:
    metrics = Metrics()
    metrics.requested("GET", "200", 0.002)
    metrics.leading("whereabouts-fast-controller", True)
    metrics.queue.known("spaces")
    metrics.queue.added("spaces", 1)
    metrics.queue.started("spaces", 0, 0.5)
    running = value(metrics, "workqueue_longest_running_processor_seconds", name="spaces")
    assert running is not None
    assert running > 0
    metrics.queue.finished("spaces", 0.1)
    assert value(metrics, "workqueue_unfinished_work_seconds", name="spaces") == 0
    text = metrics.render()[0].decode()
    for line in (
        'rest_client_requests_total{code="200",host="kubernetes",method="GET"} 1.0',
        'leader_election_master_status{name="whereabouts-fast-controller"} 1.0',
        'workqueue_adds_total{name="spaces"} 1.0',
    ):
        assert line in text


def test_what_runs_is_told() -> None:
    text = Metrics("abc").render()[0].decode()
    assert 'revision="abc"' in text
    assert "whereabouts_fast_build_info" in text


def test_reasons_of_restarts_are_those_of_the_reflector() -> None:
    ends = {end.name.lower() for end in End} - {"synced"}
    assert set(RESTART_REASONS) == ends
