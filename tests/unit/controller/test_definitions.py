"""Which CustomResourceDefinitions can hold what is written."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from whereabouts_fast.controller.definitions import _NEEDED, judge
from whereabouts_fast.kube.resource import IPPOOLS, NODESLICEPOOLS, Resource

CRDS = Path(__file__).parents[3] / "charts" / "whereabouts-fast" / "crds"
PATHS = dict(_NEEDED)


def installed(resource: Resource) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CRDS / f"{resource.plural}.yaml").read_text())
    found["status"] = {"conditions": [{"type": "Established", "status": "True"}]}
    return found


@pytest.mark.parametrize("resource", [IPPOOLS, NODESLICEPOOLS])
def test_our_own_definitions_are_right(resource: Resource) -> None:
    assert judge(resource, installed(resource), PATHS[resource]) == []


@pytest.mark.parametrize("path", PATHS[IPPOOLS])
def test_each_field_is_missed(path: str) -> None:
    definition = installed(IPPOOLS)
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    *steps, last = path.split(".")
    for step in steps:
        schema = schema["additionalProperties"] if step == "*" else schema["properties"][step]
    del schema["properties"][last]
    (problem,) = judge(IPPOOLS, definition, PATHS[IPPOOLS])
    assert f"would drop {path}" in problem


def test_a_status_subresource_is_refused() -> None:
    definition = installed(NODESLICEPOOLS)
    definition["spec"]["versions"][0]["subresources"] = {"status": {}}
    (problem,) = judge(NODESLICEPOOLS, definition, PATHS[NODESLICEPOOLS])
    assert "status subresource" in problem


def test_a_version_that_is_not_served_is_told() -> None:
    definition = copy.deepcopy(installed(IPPOOLS))
    definition["spec"]["versions"][0]["served"] = False
    assert judge(IPPOOLS, definition, PATHS[IPPOOLS]) == [
        "the CRD ippools.whereabouts.cni.cncf.io does not serve v1alpha1"
    ]


def test_a_definition_that_is_not_established_is_waited_for() -> None:
    definition = installed(IPPOOLS)
    definition["status"] = {}
    (problem,) = judge(IPPOOLS, definition, PATHS[IPPOOLS])
    assert "not established" in problem
