"""Label selectors of nodes, in the grammar of Kubernetes.

Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors,
and `labels.Parse` of apimachinery for what that page leaves open.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from whereabouts_fast.ipam.naming import is_object_name

if TYPE_CHECKING:
    from collections.abc import Mapping

_REQUIREMENT = re.compile(
    r"\s*(?:!\s*(?P<absent>[^\s!=<>,()]+)"
    r"|(?P<key>[^\s!=<>,()]+)\s*"
    r"(?:(?P<set>\b(?:in|notin)\b)\s*\((?P<values>[^()]*)\)"
    r"|(?P<op>==|=|!=|>|<)\s*(?P<value>[^\s!=<>,()]*))?)\s*(?:,|$)"
)
_WORD = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


class SelectorError(ValueError):
    """A text that is no label selector; str() completes a sentence that begins with it."""


@dataclass(frozen=True, slots=True)
class _Requirement:
    key: str
    # in, notin, exists, absent, > or <.
    op: str
    values: tuple[str, ...] = ()

    def met(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        if self.op == "in":
            return value in self.values
        if self.op == "notin":
            # What has no such label is not one of the values either.
            return value not in self.values
        if self.op in ("exists", "absent"):
            return (value is not None) == (self.op == "exists")
        try:
            number, limit = int(value or ""), int(self.values[0])
        except ValueError:
            return False
        return number > limit if self.op == ">" else number < limit


@dataclass(frozen=True, slots=True)
class Selector:
    """What labels must be like; without requirements everything matches. Equal by its text."""

    text: str = ""
    _requirements: tuple[_Requirement, ...] = ()

    def __bool__(self) -> bool:
        return bool(self._requirements)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels meet all requirements."""
        return all(one.met(labels) for one in self._requirements)


EVERYTHING = Selector()


def parse(text: str) -> Selector:
    """Read a selector such as `role=worker,zone in (a,b),!spot`. Raises SelectorError."""
    found: list[_Requirement] = []
    at = 0
    while at < len(text) and text.strip():
        match = _REQUIREMENT.match(text, at)
        if match is None or (match.end() == len(text) and text[match.end() - 1] == ","):
            raise SelectorError(f'is not a label selector at "{text[at : at + 20]}"')
        found.append(_requirement(match))
        at = match.end()
    return Selector(text.strip(), tuple(found))


def _requirement(match: re.Match[str]) -> _Requirement:
    key = match["absent"] or match["key"]
    prefix, slash, name = key.rpartition("/")
    if not _WORD.fullmatch(name) or (slash and not is_object_name(prefix)):
        raise SelectorError(f'has "{key}", which is no label key')
    if match["absent"]:
        return _Requirement(key, "absent")
    if match["set"]:
        values = tuple(value.strip() for value in match["values"].split(","))
        op = match["set"]
    elif match["op"]:
        values = (match["value"],)
        op = {"=": "in", "==": "in", "!=": "notin"}.get(match["op"], match["op"])
    else:
        return _Requirement(key, "exists")
    for value in values:
        if value and not _WORD.fullmatch(value):
            raise SelectorError(f'has "{value}", which is no label value')
        if op in ("<", ">") and not re.fullmatch(r"-?[0-9]{1,18}", value):
            raise SelectorError(f'compares with "{value}", which is no number')
    return _Requirement(key, op, values)
