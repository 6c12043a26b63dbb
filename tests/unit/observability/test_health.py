"""The endpoints as a probe and a scraper see them."""

from __future__ import annotations

import asyncio
import http.client

import pytest

from whereabouts_fast.observability import health
from whereabouts_fast.observability.metrics import Metrics


def fetch(port: int, path: str) -> tuple[int, str, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers["Content-Type"]
    finally:
        connection.close()


async def test_endpoints_tell_what_is_wrong() -> None:
    problems = {"crds": "ippools has no field spec.closed"}
    checks = {"crds": lambda: problems.get("crds", "")}
    async with health.serve("127.0.0.1", 0, metrics=Metrics(), alive={}, ready=checks) as (
        host,
        port,
    ):
        assert (host, port > 0) == ("127.0.0.1", True)
        assert (await asyncio.to_thread(fetch, port, "/healthz"))[:2] == (200, "ok\n")
        status, text, _ = await asyncio.to_thread(fetch, port, "/readyz")
        assert (status, text) == (503, "crds: ippools has no field spec.closed\n")
        problems.clear()
        assert (await asyncio.to_thread(fetch, port, "/readyz"))[:2] == (200, "ok\n")
        status, text, kind = await asyncio.to_thread(fetch, port, "/metrics")
        assert status == 200
        assert "whereabouts_fast_build_info" in text
        assert kind.startswith("text/plain; version=0.0.4")


async def test_taken_port_is_an_error_that_names_it() -> None:
    async with health.serve("127.0.0.1", 0, metrics=Metrics(), alive={}, ready={}) as (_, port):
        with pytest.raises(OSError, match=str(port)):
            async with health.serve("127.0.0.1", port, metrics=Metrics(), alive={}, ready={}):
                pass
