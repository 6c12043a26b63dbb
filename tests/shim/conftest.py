"""The built shim, and pools made by hand as the controller would make them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hack.cluster.api import Api
from hack.cluster.server import Cluster
from tests.shim import forms
from tests.shim.world import World

# Their subject is a form, and tools to build it, that this run may not be about.
collect_ignore_glob = [] if forms.STATIC in forms.named() else ["test_static*.py"]


@pytest.fixture(scope="session", params=forms.named())
def shim(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The executable in one of its forms, built from the tree as it is."""
    form: str = request.param
    return forms.make(form, tmp_path_factory.mktemp(f"shim-{form}"))


@pytest.fixture
def world(cluster: Cluster, api: Api, shim: Path, tmp_path: Path) -> World:
    """An empty cluster and nodes that have the shim."""
    return World(cluster, api, shim, tmp_path)
