"""The built shim, and pools made by hand as the controller would make them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cni.build import build
from hack.cluster.api import Api
from hack.cluster.server import Cluster
from tests.shim.world import World


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The executable, built from the tree as it is."""
    return build(tmp_path_factory.mktemp("shim"))


@pytest.fixture
def world(cluster: Cluster, api: Api, shim: Path, tmp_path: Path) -> World:
    """An empty cluster and nodes that have the shim."""
    return World(cluster, api, shim, tmp_path)
