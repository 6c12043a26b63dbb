"""`whereabouts-fast controller`: the loops that run once per cluster."""

from __future__ import annotations

import argparse
import os
import sys

from whereabouts_fast.cli import options
from whereabouts_fast.settings import ControllerSettings, SettingsError, describe, load


def configure(parser: argparse.ArgumentParser) -> None:
    """Add one flag for each setting of the controller."""
    options.add_settings(parser, describe(ControllerSettings).values())


def run(arguments: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT; 0 after an orderly stop, 1 after a failure, 2 for bad usage."""
    try:
        settings = load(ControllerSettings, vars(arguments), os.environ)
    except SettingsError as error:
        sys.stderr.write(f"whereabouts-fast controller: {error}\n")
        return 2
    # Imported late: --help must not pay for the Kubernetes client.
    from whereabouts_fast.controller import process

    return process.run(settings)
