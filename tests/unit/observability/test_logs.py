"""One JSON object per line, with constant message and single-word keys."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from whereabouts_fast.observability import logs


@pytest.fixture(autouse=True)
def _leave_logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)
    structlog.reset_defaults()


def test_lines_are_json_objects() -> None:
    stream = io.StringIO()
    logs.configure("info", "auto", stream)
    logs.get("slices").info("Dealt slice", node="n1")
    logs.get("slices").debug("Looked again")
    (line,) = stream.getvalue().splitlines()
    entry = json.loads(line)
    assert entry.pop("time").endswith("Z")
    assert entry == {"msg": "Dealt slice", "node": "n1", "component": "slices", "level": "info"}


def test_lines_of_libraries_have_the_same_form() -> None:
    stream = io.StringIO()
    logs.configure("info", "json", stream)
    logging.getLogger("asyncio").warning("Took %s", "long")
    entry = json.loads(stream.getvalue())
    assert (entry["msg"], entry["level"]) == ("Took long", "warning")


def test_console_is_for_people() -> None:
    stream = io.StringIO()
    logs.configure("info", "console", stream)
    logs.get("slices").info("Dealt slice", node="n1")
    assert "Dealt slice" in stream.getvalue()
    assert not stream.getvalue().startswith("{")
