"""The endpoints /healthz, /readyz and /metrics, served by aiohttp.web."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from aiohttp import web

from whereabouts_fast.observability.metrics import Metrics

# A check returns "" when all is well, else what is wrong, one thing a line, for a person to read.
Check = Callable[[], str]


@asynccontextmanager
async def serve(
    host: str,
    port: int,
    *,
    metrics: Metrics,
    alive: Mapping[str, Check],
    ready: Mapping[str, Check],
) -> AsyncIterator[tuple[str, int]]:
    """Serve until the block ends and yield the bound host and port.

    Raises OSError when the address cannot be bound.
    """
    app = web.Application()
    app.router.add_get("/healthz", _answer(alive))
    app.router.add_get("/readyz", _answer(ready))

    async def scrape(_: web.Request) -> web.Response:
        body, content_type = metrics.render()
        return web.Response(body=body, headers={"Content-Type": content_type})

    app.router.add_get("/metrics", scrape)
    # A probe that hangs on to its connection must not hold up the end of the process.
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host or None, port)
        await site.start()
        bound = runner.addresses[0]
        yield bound[0], bound[1]
    finally:
        await runner.cleanup()


def _answer(checks: Mapping[str, Check]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(_: web.Request) -> web.Response:
        lines = [
            f"{name}: {line}\n"
            for name, check in checks.items()
            for line in check().split("\n")
            if line
        ]
        if lines:
            return web.Response(status=503, text="".join(lines))
        return web.Response(text="ok\n")

    return handle
