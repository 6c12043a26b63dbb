"""Flags of a command, made from its settings, so that help, variables and defaults agree."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, cast

from whereabouts_fast import settings

if TYPE_CHECKING:
    from pydantic import BaseModel


def add_settings(parser: argparse.ArgumentParser, model: type[BaseModel]) -> None:
    """Add one flag for each field; values stay text, the settings model checks them."""
    for name, field in model.model_fields.items():
        extra = cast("dict[str, object]", field.json_schema_extra)
        variable = settings.variable(model, name)
        default = "" if field.default in ("", False) else f", default {field.default}"
        text = f"{field.description} [{extra['unit']}{default}; ${variable}]".replace("%", "%%")
        if field.annotation is bool:
            parser.add_argument(
                settings.flag(name), action=argparse.BooleanOptionalAction, default=None, help=text
            )
        else:
            metavar = str(extra["unit"]).upper()
            parser.add_argument(settings.flag(name), metavar=metavar, default=None, help=text)
