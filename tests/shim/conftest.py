"""The built shim, and pools made by hand as the controller would make them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hack.cluster.api import Api
from hack.cluster.server import Cluster
from tests.shim import forms, instruments
from tests.shim.world import World

# Their subject is a form, and tools to build it, that this run may not be about.
collect_ignore_glob = [] if forms.STATIC in forms.named() else ["test_static*.py"]


@pytest.fixture(scope="session", params=forms.named())
def form(request: pytest.FixtureRequest) -> str:
    """The form that the shim is built in."""
    named: str = request.param
    return named


@pytest.fixture(scope="session")
def shim(form: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The executable, built from the tree as it is."""
    return forms.make(form, tmp_path_factory.mktemp(f"shim-{form}"))


@pytest.fixture(scope="session")
def observed(form: str, tmp_path_factory: pytest.TempPathFactory) -> instruments.Observed:
    """A shim that tells what it has loaded."""
    return instruments.Observed(form, tmp_path_factory.mktemp(f"observed-{form}"))


@pytest.fixture(scope="session")
def traced(form: str, tmp_path_factory: pytest.TempPathFactory) -> instruments.Traced:
    """A shim that counts its lines, and dies at one of them."""
    return instruments.Traced(form, tmp_path_factory.mktemp(f"traced-{form}"))


@pytest.fixture
def world(cluster: Cluster, api: Api, shim: Path, tmp_path: Path) -> World:
    """An empty cluster and nodes that have the shim."""
    return World(cluster, api, shim, tmp_path)
