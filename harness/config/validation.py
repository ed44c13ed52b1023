"""What a configuration file may hold, said once: a shape reads a node and also gives its JSON schema.

Every `read` raises ConfigurationError with file and line when the node has another shape.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from harness.config.document import Kind, Node, nearest_file, suggestion
from harness.files import kind_of

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Schema = dict[str, object]


class Shape(Protocol[T_co]):
    """Reads a node into a value."""

    def read(self, node: Node) -> T_co: ...
    def schema(self) -> Schema: ...


def _expect(node: Node, kinds: Sequence[Kind], expected: str) -> None:
    if node.kind not in kinds:
        raise node.error(f"expected {expected}, found {node.describe()}")


@dataclass(frozen=True, kw_only=True)
class Text:
    """Text that is not empty. A bare number or `true` is taken as it is written."""

    expected: str = "a word"
    pattern: str = ""

    def read(self, node: Node) -> str:
        _expect(node, ("text", "integer", "number", "boolean"), self.expected)
        if not node.source.strip() or (self.pattern and not re.fullmatch(self.pattern, node.source)):
            raise node.error(f'expected {self.expected}, found "{node.source[:40]}"')
        if "\0" in node.source:  # no path and no word of a command can hold it
            raise node.error(f"expected {self.expected}, found a null character in it")
        return node.source

    def schema(self) -> Schema:
        return {"type": "string", "minLength": 1} | (
            {"pattern": f"^(?:{self.pattern})$"} if self.pattern else {}
        )


@dataclass(frozen=True, kw_only=True)
class Line(Text):
    """Text that becomes a part of lines and tables: every character of it can be printed."""

    def read(self, node: Node) -> str:
        text = super().read(node)
        if not text.isprintable():
            raise node.error(f"expected {self.expected}, found {text!r}, with what cannot be printed")
        return text


@dataclass(frozen=True, kw_only=True)
class Integer:
    """A whole number within bounds."""

    least: int
    most: int

    def read(self, node: Node) -> int:
        expected = f"a whole number from {self.least} to {self.most}"
        _expect(node, ("integer",), expected)
        assert isinstance(node.scalar, int)
        if not self.least <= node.scalar <= self.most:
            raise node.error(f"expected {expected}, found {node.source[:40]}")
        return node.scalar

    def schema(self) -> Schema:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True, kw_only=True)
class Number:
    """A number within bounds."""

    least: float
    most: float

    def read(self, node: Node) -> float:
        expected = f"a number from {self.least:g} to {self.most:g}"
        _expect(node, ("integer", "number"), expected)
        assert isinstance(node.scalar, int | float)
        if not self.least <= node.scalar <= self.most:
            raise node.error(f"expected {expected}, found {node.source[:40]}")
        return float(node.scalar)

    def schema(self) -> Schema:
        return {"type": "number", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True, kw_only=True)
class Boolean:
    """true or false."""

    def read(self, node: Node) -> bool:
        _expect(node, ("boolean",), "true or false")
        return bool(node.scalar)

    def schema(self) -> Schema:
        return {"type": "boolean"}


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One of a few words. `names` is called when it is needed: targets come from files."""

    what: str
    names: Callable[[], Sequence[str]]

    def read(self, node: Node) -> str:
        names = self.names()
        _expect(node, ("text", "integer", "number", "boolean"), f"a {self.what}: one of {', '.join(names)}")
        if node.source not in names:
            raise node.error(
                f"unknown {self.what} {node.source}", hint=_sentence(suggestion(node.source, names))
            )
        return node.source

    def schema(self) -> Schema:
        return {"enum": list(self.names())}


@dataclass(frozen=True, kw_only=True)
class ExistingPath:
    """A path, relative to the document's folder, of a file that exists."""

    what: str

    def read(self, node: Node) -> Path:
        written = Text(expected=f"the path of a {self.what}").read(node)
        path = Path(node.file).parent / written
        kind = existing_kind(node, path, self.what)
        if kind != "file":
            raise node.error(f"expected a {self.what}, but {path} is a {kind}")
        return path

    def schema(self) -> Schema:
        return {"type": "string", "minLength": 1, "description": f"{self.what}; relative to this file"}


def existing_kind(node: Node, path: Path, what: str) -> str:
    """What is at the path that stands here: a file, a folder or something else. Raises ConfigurationError."""
    mode = node.mode(path)
    if not mode:
        near = nearest_file(path)
        raise node.error(f"there is no {what} {path}", hint=f"Did you mean {near}?" if near else "")
    return kind_of(mode)


@dataclass(frozen=True, kw_only=True)
class ListOf(Generic[T]):
    """A list with at least one item, none twice."""

    what: str
    item: Shape[T]

    def read(self, node: Node) -> tuple[T, ...]:
        _expect(node, ("list",), f"a list of {self.what}")
        if not node.items:
            raise node.error(f"expected at least one of {self.what}, found an empty list")
        values: dict[T, Node] = {}
        for item in node.items:
            value = self.item.read(item)
            if value in values:
                raise item.error(f"the same entry stands on line {values[value].line} already")
            values[value] = item
        return tuple(values)

    def schema(self) -> Schema:
        return {"type": "array", "minItems": 1, "items": self.item.schema()}


@dataclass(frozen=True, kw_only=True)
class Entry(Generic[T]):
    """A key of a mapping whose keys are free, with its place for messages."""

    key: str
    value: T
    node: Node = field(compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class MappingOf(Generic[T]):
    """A mapping with free keys, in the document's order."""

    what: str
    item: Shape[T]
    pattern: str  # every key matches it; also in the JSON schema
    expected: str  # what such a key is

    def read(self, node: Node) -> tuple[Entry[T], ...]:
        _expect(node, ("mapping",), f"a mapping of {self.what}")
        for key in node.entries:
            if not re.fullmatch(self.pattern, key):
                raise node.error(f'"{key[:40]}" is not {self.expected}', key=key)
        return tuple(
            Entry(key=key, value=self.item.read(value), node=replace(value, line=node.key_lines[key]))
            for key, value in node.entries.items()
        )

    def schema(self) -> Schema:
        return {
            "type": "object",
            "patternProperties": {f"^(?:{self.pattern})$": self.item.schema()},
            "additionalProperties": False,
        }


@dataclass(frozen=True, kw_only=True)
class Field:
    """A key of a record."""

    shape: Shape[object]
    help: str
    required: bool = False


@dataclass(frozen=True, kw_only=True)
class Record(Generic[T]):
    """A mapping with known keys, made into `make(node, **values)`; absent keys are not passed."""

    what: str
    fields: Mapping[str, Field]
    make: Callable[..., T]
    misnomers: Mapping[str, str] = field(default_factory=dict)  # keys that people try: a hint each

    def read(self, node: Node) -> T:
        _expect(node, ("mapping",), f"{self.what}: a mapping with {', '.join(self.fields)}")
        values: dict[str, object] = {}
        for key, value in node.entries.items():
            if key not in self.fields:
                hint = self.misnomers.get(_plain(key)) or _sentence(suggestion(key, self.fields))
                raise node.error(f"unknown key {key} in {self.what}", hint=hint, key=key)
            values[key] = self.fields[key].shape.read(value)
        for key, known in self.fields.items():
            if known.required and key not in values:
                raise node.error(f"{self.what} needs the key {key} ({known.help})")
        return self.make(node, **values)

    def schema(self) -> Schema:
        properties = {
            key: {"description": known.help} | known.shape.schema() for key, known in self.fields.items()
        }
        required = [key for key, known in self.fields.items() if known.required]
        schema: Schema = {"type": "object", "additionalProperties": False, "properties": properties}
        return schema | ({"required": required} if required else {})


def made_of(kind: Callable[..., T]) -> Callable[..., T]:
    """A record's `make` for a dataclass whose fields are the record's keys."""
    return lambda _node, **values: kind(**values)


@dataclass(frozen=True, kw_only=True)
class Either(Generic[T]):
    """A short form (any scalar) or a long one (a mapping)."""

    short: Shape[T]
    long: Shape[T]

    def read(self, node: Node) -> T:
        return (self.long if node.kind == "mapping" else self.short).read(node)

    def schema(self) -> Schema:
        return {"anyOf": [self.short.schema(), self.long.schema()]}


def _plain(word: str) -> str:
    """A word as it stands among misnomers: HostName, host-name and host_name are one."""
    return re.sub(r"[-_ ]", "", word).lower()


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + ("" if text.endswith("?") else ".")
