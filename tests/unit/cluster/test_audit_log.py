"""Reading an audit log that a killed server left."""

from __future__ import annotations

import json
from pathlib import Path

from hack.cluster.audit import AuditLog


def _line(key: str, stage: str, **more: object) -> str:
    event = {
        "auditID": key,
        "stage": stage,
        "requestURI": "/api/v1/nodes",
        "verb": "list",
        "user": {"username": "admin"},
        "userAgent": "reader/1 (linux) rest",
        "objectRef": {"resource": "nodes", "apiVersion": "v1"},
        "requestReceivedTimestamp": "2026-01-01T00:00:00.000000Z",
        **more,
    }
    return json.dumps(event) + "\n"


def _log(path: Path) -> AuditLog:
    def no_server(user_agent: str, uri: str) -> None:
        raise ConnectionRefusedError

    return AuditLog(path, no_server)


def test_a_half_written_line_is_removed_before_the_next_server_appends(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    first = _line("a", "RequestReceived") + _line(
        "a", "ResponseComplete", responseStatus={"code": 200}
    )
    path.write_text(first + _line("b", "RequestReceived")[:50])
    log = _log(path)
    log.server_killed()
    with path.open("a") as file:
        file.write(_line("c", "RequestReceived"))
        file.write(_line("c", "ResponseComplete", responseStatus={"code": 404}))
    counts = log.counts(-1, path.stat().st_size)
    assert counts == {("reader", "list", "nodes", 200): 1, ("reader", "list", "nodes", 404): 1}


def test_an_open_request_of_a_killed_server_is_settled_without_a_code(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_text(_line("a", "RequestReceived"))
    log = _log(path)
    log.server_killed()
    (request,) = log.entries(-1, path.stat().st_size)
    assert (request.code, request.user_agent) == (0, "reader/1 (linux) rest")


def test_a_panic_counts_as_a_server_error(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_text(_line("a", "RequestReceived") + _line("a", "Panic"))
    assert _log(path).counts(-1, path.stat().st_size) == {("reader", "list", "nodes", 500): 1}


def test_a_server_that_was_killed_before_it_logged_leaves_nothing(tmp_path: Path) -> None:
    log = _log(tmp_path / "audit.log")
    log.server_killed()
    assert not log.path.exists()
