"""What one NAD says."""

from __future__ import annotations

import json

from whereabouts_fast.controller.claims import Reading, read
from whereabouts_fast.resources.attachments import AttachmentView


def said(text: str, problem: str = "") -> Reading:
    return read(AttachmentView("t", "nad", "u", "2026-01-01T00:00:00Z", text, problem=problem))


def test_a_list_may_use_whereabouts_anywhere() -> None:
    """Case T3."""
    ours = {"type": "ipvlan", "ipam": {"type": "whereabouts", "range": "10.41.0.0/24"}}
    for plugins in ([{"type": "sbr"}, ours], [ours, {"type": "sbr"}]):
        config = {"cniVersion": "1.0.0", "name": "green", "plugins": plugins}
        (claim,) = said(json.dumps(config)).claims
        assert claim.network.identity == ("green", "10.41.0.0/24")


def test_a_configuration_without_name_has_that_of_the_nad() -> None:
    config = {"type": "macvlan", "ipam": {"type": "whereabouts", "range": "10.41.0.0/24"}}
    (claim,) = said(json.dumps(config)).claims
    assert claim.network.name == "nad"


def test_what_the_object_itself_has_wrong_is_a_problem() -> None:
    (problem,) = said("", problem="spec.config 7: not a string").problems
    assert problem.message == "spec.config 7: not a string"


def test_absurdly_deep_json_is_a_problem_not_a_crash() -> None:
    (problem,) = said("[" * 200_000).problems
    assert "not JSON" in problem.message
    assert len(problem.message) < 300


def test_slips_are_told_and_harmless() -> None:
    ipam = {"type": "whereabouts", "range": "10.0.0.0/24", "rangeEnd": "10.0.0.9", "zzz": 1}
    config = {"cniVersion": "1.0.0", "name": "x", "type": "macvlan", "ipam": ipam}
    reading = said(json.dumps(config))
    assert len(reading.claims) == 1
    (problem,) = reading.problems
    assert problem.message == (
        "ipam.rangeEnd is not known and has no effect, did you mean range_end?;"
        " ipam.zzz is not known and has no effect"
    )
