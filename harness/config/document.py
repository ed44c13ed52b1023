"""YAML documents with the line number of every value.

Scalars follow YAML 1.2's core schema: `1e-3` is a number, `on`, `12:30` and `2024-01-01` are
text. Anchors and aliases are refused: they are hard to read, and can expand a small document enormously.
"""

from __future__ import annotations

import contextlib
import difflib
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from harness.errors import ConfigurationError, file_error, hint_of
from harness.files import decoded, read_regular

Kind = Literal["text", "integer", "number", "boolean", "nothing", "list", "mapping"]
Scalar = str | int | float | bool | None

# A sweep file has a few kilobytes. PyYAML's own parser takes a minute for a megabyte of braces.
LARGEST_FILE = 1 << 20  # bytes
MOST_VALUES = 50_000  # keys among them
DEEPEST = 64  # lists and mappings inside each other

_TAG = "tag:yaml.org,2002:"


# The first pattern that a plain scalar matches gives its tag.
_PLAIN = [
    ("null", re.compile(r"~|null|Null|NULL|")),
    ("bool", re.compile(r"true|True|TRUE|false|False|FALSE")),
    ("int", re.compile(r"[-+]?[0-9]+")),
    ("float", re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")),
]


@dataclass(frozen=True, kw_only=True)
class Node:
    """One value of a document: a scalar, a list or a mapping (keys are text, in the document's order)."""

    file: str
    line: int  # counted from 1
    kind: Kind
    scalar: Scalar = None
    source: str = ""  # a scalar as written, without quotes
    items: tuple[Node, ...] = ()
    entries: dict[str, Node] = field(default_factory=dict)
    key_lines: dict[str, int] = field(default_factory=dict)

    def error(self, message: str, *, hint: str = "", key: str | None = None) -> ConfigurationError:
        """The error to raise about this value, or about one of its keys."""
        line = self.line if key is None else self.key_lines.get(key, self.line)
        place = f"{self.file}:{line}"
        return ConfigurationError(f"{place}: {message}", hint=hint, where=place)

    def mode(self, path: Path, *, key: str | None = None) -> int:
        """The mode of the file or folder at a path, 0 if there is none.

        Raises ConfigurationError if the system refuses to say: the path is too long, or not permitted.
        """
        try:
            return path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return 0
        except OSError as error:
            raise self.error(
                f"{path}: cannot be read: {error.strerror}", hint=hint_of(error), key=key
            ) from None

    def describe(self) -> str:
        """The value in words, for "expected …, found …"."""
        if self.kind == "nothing":
            return "nothing"
        if self.kind in ("list", "mapping"):
            return f"a {self.kind}"
        shown = self.source if len(self.source) <= 40 else self.source[:37] + "..."
        article = "an" if self.kind == "integer" else "a"
        return f'the text "{shown}"' if self.kind == "text" else f"{article} {self.kind} ({shown})"


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word most similar to `word`, or "" if none is similar."""
    by_lower = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.5)
    return by_lower[found[0]] if found else ""


def suggestion(word: str, known: Iterable[str]) -> str:
    """The second half of "unknown …": the nearest known name, else all of them."""
    names = list(known)
    near = nearest(word, names)
    if near:
        return f"did you mean {near}?"
    return f"known are {', '.join(names)}" if names else "there are none"


def read_document(path: Path) -> Node:
    """Reads a YAML file. Raises ConfigurationError with file and line."""
    what = "a configuration file"
    try:
        data = read_regular(path, limit=LARGEST_FILE, what=what)
    except FileNotFoundError:
        near = nearest_file(path)
        hint = f"Did you mean {near}?" if near else ""
        raise ConfigurationError(f"{path}: no such file", hint=hint, where=str(path)) from None
    except OSError as error:
        raise file_error(path, error) from error
    return parse_document(decoded(data, path, what=what), str(path))


def parse_document(text: str, file: str) -> Node:
    """Parses a YAML text; `file` is used in messages. Raises ConfigurationError with file and line."""
    if strange := yaml.reader.Reader.NON_PRINTABLE.search(text):
        line = text.count("\n", 0, strange.start()) + 1
        raise ConfigurationError(
            f"{file}:{line}: the character U+{ord(strange.group()):04X} is not allowed in YAML"
        )
    # libyaml, if PyYAML was built with it, is many times as fast. But it refuses the surrogate pairs that
    # JSON may contain, and has other messages. So if it fails, the parser written in Python decides.
    if yaml.__with_libyaml__:
        with contextlib.suppress(yaml.YAMLError):
            return _Builder(text, file, yaml.CSafeLoader).document()
    try:
        return _Builder(text, file, yaml.SafeLoader).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        problem = " ".join(part for part in (error.context, error.problem) if part)
        raise ConfigurationError(f"{file}:{line}: {problem}") from None


def nearest_file(path: Path) -> Path | None:
    """The file beside `path` with the most similar name."""
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except (OSError, ValueError):
        return None
    near = nearest(path.name, names)
    return path.with_name(near) if near else None


_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")  # YAML 1.1's line breaks


class _Builder:
    """Makes the nodes of a document from a parser's events. Refuses constructs that no configuration uses."""

    def __init__(self, text: str, file: str, loader: type[yaml.SafeLoader | yaml.CSafeLoader]) -> None:
        self._events: Iterator[Any] = iter(yaml.parse(text, Loader=loader))
        self._file = file
        self._lines = len(_BREAK.split(text))
        self._values = 0
        self._depth = 0

    def document(self) -> Node:
        """The only document of the text; a node of kind `nothing` if it is empty."""
        root = Node(file=self._file, line=1, kind="nothing")
        documents = 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self._error(event, "a second document begins here; a file has one")
                root = self._node(next(self._events))
        return root

    def _error(self, event: Any, message: str) -> ConfigurationError:
        return ConfigurationError(f"{self._file}:{self._line(event)}: {message}")

    def _line(self, event: Any) -> int:
        # libyaml places a missing value after `?` on the line behind the text.
        return min(int(event.start_mark.line) + 1, self._lines)

    def _check(self, event: Any) -> None:
        self._values += 1
        if self._values > MOST_VALUES:
            raise self._error(event, f"more than {MOST_VALUES:,} values: not a configuration file")
        anchor = getattr(event, "anchor", None)
        if anchor is not None:
            raise self._error(event, f"anchors and aliases (&{anchor}, *{anchor}) are not supported")

    def _node(self, event: Any) -> Node:
        self._check(event)
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        kind, make = (
            ("seq", self._list) if isinstance(event, yaml.SequenceStartEvent) else ("map", self._mapping)
        )
        if event.tag not in (None, "!", _TAG + kind):
            raise self._error(event, f"the tag {event.tag} is not supported")
        self._depth += 1
        if self._depth > DEEPEST:
            raise self._error(event, f"nested too deeply; at most {DEEPEST} levels are allowed")
        node = make(self._line(event))
        self._depth -= 1
        return node

    def _list(self, line: int) -> Node:
        items = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._node(event))
        return Node(file=self._file, line=line, kind="list", items=tuple(items))

    def _mapping(self, line: int) -> Node:
        entries: dict[str, Node] = {}
        lines: dict[str, int] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            self._check(event)
            if not isinstance(event, yaml.ScalarEvent):
                raise self._error(event, "a key must be a word, not a list or a mapping")
            key_line = self._line(event)
            name = _characters(event.value, self._file, key_line)
            if name in entries:
                raise self._error(event, f"the key {name} is already set on line {lines[name]}")
            lines[name] = key_line
            entries[name] = self._node(next(self._events))
        return Node(file=self._file, line=line, kind="mapping", entries=entries, key_lines=lines)

    def _scalar(self, event: Any) -> Node:
        line = self._line(event)
        source = _characters(event.value, self._file, line)
        tag = event.tag
        if tag in (None, "!"):
            plain = event.implicit[0]
            tag = next((name for name, form in _PLAIN if plain and form.fullmatch(source)), "str")
        kind, scalar = self._value(event, tag.removeprefix(_TAG), source)
        return Node(file=self._file, line=line, kind=kind, scalar=scalar, source=source)

    def _value(self, event: Any, tag: str, source: str) -> tuple[Kind, Scalar]:
        try:
            if tag == "str":
                return "text", source
            if tag == "int":
                return "integer", int(source)
            if tag == "float":
                number = float(source)
                if not math.isfinite(number):
                    raise ValueError
                return "number", number
            if tag == "bool":
                return "boolean", {"true": True, "false": False}[source.lower()]
            if tag == "null":
                return "nothing", None
        except (ValueError, KeyError):
            raise self._error(event, f'"{source[:40]}" is not a usable {tag}') from None
        raise self._error(event, f"the tag {event.tag} is not supported")


def _characters(text: str, file: str, line: int) -> str:
    """Joins surrogate pairs, which JSON writes for some characters: `\\ud83d\\ude00`."""
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ConfigurationError(f"{file}:{line}: holds half a character (a lone surrogate)") from None
