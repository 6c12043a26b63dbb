"""The console script `whereabouts-fast`: finds the command, imports only what that needs.

Exit codes: 0 ok, 1 a finding or a failure, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

OK = 0
FAILURE = 1
USAGE = 2


class Command(Protocol):
    """What a module in this package offers as a command."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's flags; must not import what only running needs."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do the work and return the exit code."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One command of the table below."""

    module: str
    summary: str
    examples: tuple[str, ...]


COMMANDS = {
    "controller": Entry(
        module="whereabouts_fast.cli.controller",
        summary="deal slices of networks to nodes, and take them back",
        examples=(
            "whereabouts-fast controller --kubeconfig ~/.kube/config --namespace ipam-system",
            "whereabouts-fast controller --listen 127.0.0.1:0 --log-format console",
        ),
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; the entry point of the console script."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(words)
    except KeyboardInterrupt:
        return FAILURE
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else FAILURE


def _dispatch(words: list[str]) -> int:
    parser = _top_parser()
    if not words:
        parser.print_help(sys.stderr)
        return USAGE
    if words[0] not in COMMANDS:
        parser.parse_args(words)
        return USAGE
    name = words[0]
    entry = COMMANDS[name]
    command = cast("Command", importlib.import_module(entry.module))
    own = argparse.ArgumentParser(
        prog=f"whereabouts-fast {name}",
        description=f"{entry.summary[0].upper()}{entry.summary[1:]}.",
        epilog=_examples(entry.examples),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.configure(own)
    return command.run(own.parse_args(words[1:]))


def _top_parser() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    listing = "\n".join(f"  {name:{width}}  {entry.summary}" for name, entry in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="whereabouts-fast",
        description="Node-slice IP address management for secondary pod networks in Kubernetes.",
        epilog=f"commands:\n{listing}\n\n{_examples(('whereabouts-fast controller --help',))}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    parser.add_argument("command", choices=list(COMMANDS), metavar="COMMAND", help="see below")
    return parser


class _Version(argparse.Action):
    """Print the version; importlib.metadata costs time that no other command should pay."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        from importlib.metadata import version

        sys.stdout.write(f"whereabouts-fast {version('whereabouts-fast')}\n")
        parser.exit(OK)


def _examples(lines: Sequence[str]) -> str:
    return "examples:\n" + "\n".join(f"  {line}" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
