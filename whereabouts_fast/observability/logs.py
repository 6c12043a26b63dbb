"""Logging with structlog: JSON by default, a readable console on a terminal; always to stderr."""

from __future__ import annotations

import logging
import sys
from typing import TextIO

import structlog

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


def configure(level: str = "info", style: str = "auto", stream: TextIO | None = None) -> None:
    """Set up logging for the whole process; `style` is auto, json or console."""
    target = sys.stderr if stream is None else stream
    console = style == "console" or (style == "auto" and target.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    ]
    renderer: list[structlog.typing.Processor] = (
        [
            structlog.dev.ConsoleRenderer(
                colors=target.isatty(), exception_formatter=structlog.dev.plain_traceback
            )
        ]
        if console
        else [
            structlog.processors.format_exc_info,
            structlog.processors.EventRenamer("msg"),
            structlog.processors.JSONRenderer(),
        ]
    )
    structlog.configure(
        processors=[*shared, *renderer],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(file=target),
        cache_logger_on_first_use=False,
    )
    _adopt_foreign_loggers(
        LEVELS[level], target, [*shared, structlog.stdlib.ExtraAdder()], renderer
    )


def _adopt_foreign_loggers(
    level: int,
    target: TextIO,
    shared: list[structlog.typing.Processor],
    renderer: list[structlog.typing.Processor],
) -> None:
    """Give the lines of libraries (asyncio, aiohttp) the same form as our own."""
    handler = logging.StreamHandler(target)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
        )
    )
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    # Libraries are only interesting when something is wrong with them.
    root.setLevel(max(level, logging.WARNING))


def get(name: str) -> structlog.typing.FilteringBoundLogger:
    """Return the logger of one component."""
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger(component=name)
    return logger
