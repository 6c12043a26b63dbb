"""Flags of a command, made from its settings, so that help, variables and defaults agree."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from whereabouts_fast.settings import Setting


def add_settings(parser: argparse.ArgumentParser, described: Iterable[Setting]) -> None:
    """Add one flag for each setting; values stay text, the settings' model checks them."""
    for one in described:
        default = f", default {one.default}" if one.default and not one.boolean else ""
        text = f"{one.reason} [{one.unit}{default}; ${one.variable}]".replace("%", "%%")
        if one.boolean:
            parser.add_argument(
                one.flag, action=argparse.BooleanOptionalAction, default=None, help=text
            )
        else:
            value = "{" + ",".join(one.choices) + "}" if one.choices else one.unit.upper()
            parser.add_argument(one.flag, metavar=value, default=None, help=text)
