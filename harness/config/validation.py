"""The shapes of configuration files. A shape reads a node, and gives the JSON schema for it.

Editors use the schema, and docs/configuration.md is generated from it.

Every `read` raises ConfigurationError with file and line when the node has another shape.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from harness import console
from harness.config.document import Kind, Node, nearest_file, suggestion
from harness.files import kind_of

T = TypeVar("T")
V = TypeVar("V")
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
    """Text that is not empty. A bare number or `true` is read as written."""

    expected: str = "a word"
    pattern: str = ""

    def read(self, node: Node) -> str:
        _expect(node, ("text", "integer", "number", "boolean"), self.expected)
        if not node.source.strip() or (self.pattern and not re.fullmatch(self.pattern, node.source)):
            raise node.error(f'expected {self.expected}, found "{node.source[:40]}"')
        if "\0" in node.source:  # not possible in paths and in words of a command
            raise node.error(f"expected {self.expected}, found a null character in it")
        return node.source

    def schema(self) -> Schema:
        return {"type": "string", "minLength": 1} | (
            {"pattern": f"^(?:{self.pattern})$"} if self.pattern else {}
        )


@dataclass(frozen=True, kw_only=True)
class Line(Text):
    """Text for lines and tables: all characters are printable."""

    def read(self, node: Node) -> str:
        text = super().read(node)
        if not text.isprintable():
            raise node.error(f"expected {self.expected}, found {text!r}, which has unprintable characters")
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
        return {"type": "string", "minLength": 1}


def existing_kind(node: Node, path: Path, what: str) -> str:
    """The kind of file at a path, as kind_of says. Raises ConfigurationError if nothing is there."""
    mode = node.mode(path)
    if not mode:
        near = nearest_file(path)
        raise node.error(f"{what} {path} does not exist", hint=f"Did you mean {near}?" if near else "")
    return kind_of(mode)


@dataclass(frozen=True, kw_only=True)
class ListOf(Generic[T]):
    """A list with at least one item and no duplicates."""

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
                raise item.error(f"duplicate of the entry on line {values[value].line}")
            values[value] = item
        return tuple(values)

    def schema(self) -> Schema:
        return {"type": "array", "minItems": 1, "items": self.item.schema()}


@dataclass(frozen=True, kw_only=True)
class Entry(Generic[T]):
    """An entry of a mapping with free keys, with its place for messages."""

    key: str
    value: T
    node: Node = field(compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class MappingOf(Generic[T]):
    """A mapping with free keys, in the order of the document."""

    what: str
    item: Shape[T]
    pattern: str  # every key matches it; also in the JSON schema
    expected: str  # description of the keys

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
    help: str  # the purpose of the key, in one sentence without capital and full stop
    required: bool = False
    example: object = None  # as YAML would give it
    default: object = None  # the same; not needed if the record's dataclass has a default


@dataclass(frozen=True, kw_only=True)
class Record(Generic[T]):
    """A mapping with known keys, made into `make(node, **values)`; absent keys are not passed."""

    what: str
    fields: Mapping[str, Field]
    make: Callable[..., T]
    defaults: type | None = None  # a dataclass with the defaults of absent keys
    misnomers: Mapping[str, str] = field(default_factory=dict)  # key that people try -> hint
    renamed: Mapping[str, str] = field(default_factory=dict)  # deprecated key -> current key
    also: Sequence[str] = ()  # keys of other records for the same place, to suggest for misspelt ones

    def read(self, node: Node) -> T:
        _expect(node, ("mapping",), f"{self.what}: a mapping with {', '.join(self.fields)}")
        values: dict[str, object] = {}
        for written, value in node.entries.items():
            key = self._current_name(node, written)
            if key not in self.fields:
                hint = self.misnomers.get(_plain(key)) or _sentence(
                    suggestion(key, [*self.fields, *self.also])
                )
                raise node.error(f"unknown key {key} in {self.what}", hint=hint, key=key)
            values[key] = self.fields[key].shape.read(value)
        for key, known in self.fields.items():
            if known.required and key not in values:
                raise node.error(f"{self.what} needs the key {key} ({known.help})")
        return self.make(node, **values)

    def _current_name(self, node: Node, written: str) -> str:
        """The current name of a key. Warns if the file has a deprecated one."""
        if written not in self.renamed:
            return written
        key = self.renamed[written]
        if key in node.entries:
            raise node.error(f"{written} and {key} are the same key", hint=f"Remove {written}.", key=written)
        line = node.key_lines[written]
        console.warn(f"{node.file}:{line}: the key {written} is deprecated; write {key}")
        return key

    def schema(self) -> Schema:
        defaults = _defaults_of(self.defaults) if self.defaults else {}
        properties = {}
        for key, known in self.fields.items():
            default = defaults.get(key) if known.default is None else known.default
            properties[key] = (
                known.shape.schema()
                | {"description": known.help[0].upper() + known.help[1:] + "."}
                | ({} if default is None or known.required else {"default": default})
                | ({} if known.example is None else {"examples": [known.example]})
            )
        required = [key for key, known in self.fields.items() if known.required]
        schema: Schema = {
            "title": self.what,
            "type": "object",
            "additionalProperties": False,
            "properties": properties,
        }
        return schema | ({"required": required} if required else {})


def _defaults_of(kind: type) -> dict[str, object]:
    """The defaults of a dataclass that YAML can hold."""
    return {
        known.name: known.default
        for known in dataclasses.fields(kind)
        if isinstance(known.default, bool | int | float | str) and known.default != ""
    }


def from_dataclass(kind: Callable[..., T]) -> Callable[..., T]:
    """A record's `make` for a dataclass with the record's keys as fields."""
    return lambda _node, **values: kind(**values)


def document_schema(title: str, root: Shape[object]) -> Schema:
    """The JSON schema of a kind of file."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | root.schema() | {"title": title}


@dataclass(frozen=True, kw_only=True)
class Then(Generic[V, T]):
    """Another shape, with `make(node, value)` called for its value."""

    shape: Shape[V]
    make: Callable[[Node, V], T]

    def read(self, node: Node) -> T:
        return self.make(node, self.shape.read(node))

    def schema(self) -> Schema:
        return self.shape.schema()


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
    """A word as a key of `misnomers`: hostname for HostName, host-name and host_name."""
    return re.sub(r"[-_ ]", "", word).lower()


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + ("" if text.endswith("?") else ".")
