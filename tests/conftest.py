"""Fixtures around a real API server, and the profiles of the property tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from hack.cluster.api import Api
from hack.cluster.clean import remove_objects
from hack.cluster.server import Cluster
from tests.faults.proxy import Proxy

settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile(
    "ci",
    max_examples=100,
    # The same examples in each run: a red gate must mean that the change broke something.
    derandomize=True,
    deadline=None,
    # Not a property of the code but of how busy the machine is.
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "long", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
_profile = os.environ.get("HYPOTHESIS_PROFILE") or "dev"
if _profile not in ("dev", "ci", "long"):
    raise pytest.UsageError(f"HYPOTHESIS_PROFILE={_profile} is unknown: use dev, ci or long")
settings.load_profile(_profile)


@pytest.fixture(scope="session")
def _session_cluster() -> Iterator[Cluster]:
    with Cluster.start() as cluster:
        yield cluster


@pytest.fixture
def cluster(_session_cluster: Cluster) -> Cluster:
    """The session's server; objects of earlier tests may be there (see `api`)."""
    _session_cluster.require_running()
    return _session_cluster


@pytest.fixture
def api(cluster: Cluster) -> Api:
    """A client with all rights of the session's server, freed of what earlier tests left."""
    remove_objects(cluster.api)
    return cluster.api


@pytest.fixture
def kubeconfig(cluster: Cluster) -> Path:
    """The administrator's kubeconfig of the session's server."""
    return cluster.kubeconfig


@pytest.fixture
def own_cluster() -> Iterator[Cluster]:
    """A server of this test alone, to be stopped, compacted or loaded."""
    with Cluster.start() as cluster:
        yield cluster


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[Proxy]:
    """A fault proxy before the session's server, without any fault injected yet."""
    with Proxy(cluster) as proxy:
        yield proxy
