"""The block-style YAML that kubectl and whereabouts write kubeconfig files in, and no more.

Mappings, sequences, plain, quoted and literal scalars, comments, empty flow collections. Anchors,
tags, filled flow collections and several documents are refused: a kubeconfig has none of them.
Scalars stay texts, for no key of a kubeconfig needs another kind than text but one, a boolean.
"""

from __future__ import annotations

from cni import jsontext


class YamlError(ValueError):
    """A text outside the subset; the message names the line."""


class _Line:
    __slots__ = ("indent", "number", "text")

    def __init__(self, number: int, indent: int, text: str) -> None:
        self.number = number
        self.indent = indent
        self.text = text


class _Reader:
    __slots__ = ("at", "lines", "raw")

    def __init__(self, text: str) -> None:
        self.raw = text.split("\n")
        self.lines: list[_Line] = []
        self.at = 0
        for number, raw in enumerate(self.raw, 1):
            body = raw.strip()
            if not body or body.startswith("#") or (body == "---" and not self.lines):
                continue
            if body == "...":
                break
            indent = len(raw) - len(raw.lstrip(" "))
            if raw[indent] == "\t":
                raise YamlError(f"line {number}: a tab indents")
            self.lines.append(_Line(number, indent, raw[indent:].rstrip()))

    def peek(self) -> _Line | None:
        return self.lines[self.at] if self.at < len(self.lines) else None

    def node(self, least: int) -> object:
        """Read the block that starts at the next line, if it is indented by `least` or more."""
        line = self.peek()
        if line is None or line.indent < least:
            return None
        if line.text == "-" or line.text.startswith("- "):
            return self.sequence(line.indent)
        return self.mapping(line.indent)

    def sequence(self, indent: int) -> list[object]:
        items: list[object] = []
        while True:
            line = self.peek()
            if line is None or line.indent != indent or not (line.text + " ").startswith("- "):
                return items
            rest = line.text[1:].lstrip()
            if not rest or rest.startswith("#"):
                self.at += 1
                items.append(self.node(indent + 1))
            elif _key(rest) is None and not (rest + " ").startswith("- "):
                self.at += 1
                items.append(self.scalar(line, rest, indent))
            else:
                # "- key: value" is a block of its own that begins behind the dash.
                line.indent += len(line.text) - len(rest)
                line.text = rest
                items.append(self.node(line.indent))

    def mapping(self, indent: int) -> dict[str, object]:
        found: dict[str, object] = {}
        while True:
            line = self.peek()
            if line is None or line.indent < indent:
                return found
            split = _key(line.text)
            if line.indent > indent or split is None:
                raise YamlError(f"line {line.number}: expecting a key")
            key, rest = split
            if key in found:
                raise YamlError(f"line {line.number}: {key} stands twice")
            self.at += 1
            if rest and not rest.startswith("#"):
                found[key] = self.scalar(line, rest, indent)
                continue
            after = self.peek()
            # A sequence may stand at its key's own indentation.
            dash = after is not None and (after.text + " ").startswith("- ")
            found[key] = self.node(indent if dash else indent + 1)

    def scalar(self, line: _Line, text: str, indent: int) -> object:
        if text[0] in "|>":
            return self.literal(line, text, indent)
        if text[0] in "\"'":
            return _quoted(line, text)
        cut = text.find(" #")
        plain = text[:cut].rstrip() if cut >= 0 else text
        if plain == "{}":
            return {}
        if plain == "[]":
            return []
        if plain[0] in "{[&*!%@`":
            raise YamlError(f"line {line.number}: {plain[0]} is not understood here")
        return None if plain in ("null", "~") else plain

    def literal(self, line: _Line, text: str, indent: int) -> str:
        if text not in ("|", "|-", "|+"):
            raise YamlError(f"line {line.number}: {text} is not understood here")
        taken: list[str] = []
        number = line.number
        while number < len(self.raw):
            raw = self.raw[number]
            if raw.strip() and len(raw) - len(raw.lstrip(" ")) <= indent:
                break
            taken.append(raw)
            number += 1
        while self.at < len(self.lines) and self.lines[self.at].number <= number:
            self.at += 1
        depth = min((len(r) - len(r.lstrip(" ")) for r in taken if r.strip()), default=0)
        return "\n".join(r[depth:] for r in taken).rstrip("\n") + ("" if text == "|-" else "\n")


def _key(text: str) -> tuple[str, str] | None:
    """Split "key: rest", None when the text is a scalar."""
    if text[0] in "\"'":
        end = text.find(text[0], 1)
        if end < 0 or not (text[end + 1 :] + " ").startswith(": "):
            return None
        return text[1:end], text[end + 2 :].strip()
    key, colon, rest = (text + " ").partition(": ")
    return (key.rstrip(), rest.strip()) if colon else None


def _quoted(line: _Line, text: str) -> str:
    quote = text[0]
    at = 1
    while at < len(text):
        escaped = text[at] == "\\" and quote == '"'
        doubled = text[at : at + 2] == "''" and quote == "'"
        if escaped or doubled:
            at += 2
        elif text[at] == quote:
            break
        else:
            at += 1
    if at >= len(text) or (text[at + 1 :].strip() and not text[at + 1 :].startswith(" #")):
        raise YamlError(f"line {line.number}: a quote does not end")
    if quote == "'":
        return text[1:at].replace("''", "'")
    try:
        return str(jsontext.parse(text[: at + 1].encode()))
    except jsontext.JsonError:
        raise YamlError(f"line {line.number}: an escape is not understood here") from None


def parse(text: str) -> object:
    """Read one document; raises YamlError."""
    reader = _Reader(text.replace("\r\n", "\n"))
    value = reader.node(0)
    line = reader.peek()
    if line is not None:
        raise YamlError(f"line {line.number}: expecting a key")
    return value
