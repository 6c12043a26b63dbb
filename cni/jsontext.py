"""JSON by the C code behind the standard library's json, without its Python half.

Importing json costs a millisecond, half of it compiled regular expressions that nobody here needs.
"""

from __future__ import annotations

import _json
import sys

_BLANK = " \t\n\r"


class JsonError(ValueError):
    """A text that is not JSON; the message says where."""


class JSONDecodeError(ValueError):
    """What the C scanner raises; it looks the name up in a module called json.decoder."""

    def __init__(self, msg: str, doc: str, pos: int) -> None:
        super().__init__(f"{msg} at character {pos}")


def stand_in() -> None:
    """Give the C scanner the module it takes its error class from, unless json is loaded."""
    if "json.decoder" not in sys.modules:
        stub = type(sys)("json.decoder")
        stub.JSONDecodeError = JSONDecodeError  # type: ignore[attr-defined]
        sys.modules["json.decoder"] = stub


def _no_constant(name: str) -> object:
    raise JsonError(f"{name} is not a JSON number")


class _Rules:
    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = staticmethod(_no_constant)


_scan = _json.make_scanner(_Rules)  # type: ignore[arg-type]


def parse(raw: bytes) -> object:
    """Decode UTF-8 JSON; raises JsonError for anything else, never another exception."""
    try:
        text = raw.decode("utf-8").strip(_BLANK)
        value, end = _scan(text, 0)
    except StopIteration as stop:
        raise JsonError(f"expecting a value at character {stop.value}") from None
    except UnicodeDecodeError:
        raise JsonError("is not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise JsonError(str(error)) from None
    if end != len(text):
        raise JsonError(f"extra data at character {end}")
    return value


def parse_object(raw: bytes) -> dict[str, object]:
    """Decode a JSON object; raises JsonError also for every other kind of value."""
    value = parse(raw)
    if not isinstance(value, dict):
        raise JsonError("is not a JSON object")
    return value


def _unknown(value: object) -> object:
    raise TypeError(f"{type(value).__name__} has no JSON form")


_encode = _json.make_encoder(
    None, _unknown, _json.encode_basestring_ascii, None, ":", ",", False, False, False
)


def encode(value: object) -> bytes:
    """Encode plain values (dict, list, str, int, float, bool, None) without white space."""
    return "".join(_encode(value, 0)).encode("ascii")
