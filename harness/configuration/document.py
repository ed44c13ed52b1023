"""YAML documents whose every value knows the line it stands on.

Scalars are read as YAML 1.2's core schema has them: `1e-3` is a number, `on`, `12:30` and `2024-01-01` are
text. Anchors and aliases are refused: a configuration is read top to bottom, and a document cannot blow up.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import yaml

from harness.errors import ConfigurationError, cure_of, file_error

Kind = Literal["text", "integer", "number", "boolean", "nothing", "list", "mapping"]
Scalar = str | int | float | bool | None

LARGEST_FILE = 4 << 20  # bytes; a sweep file is a few kilobytes

_TAG = "tag:yaml.org,2002:"


class _Loader(yaml.SafeLoader):
    """SafeLoader's scanner and composer with the core schema's scalars and without aliases."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 - PyYAML keeps its resolvers in the class

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        anchor = getattr(event, "anchor", None)
        if anchor is not None:
            raise yaml.MarkedYAMLError(
                None, None, f"anchors and aliases (&{anchor}, *{anchor}) are not supported", event.start_mark
            )
        return super().compose_node(parent, index)


for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+", list("-+0123456789")),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?",
        list("-+.0123456789"),
    ),
):
    _Loader.add_implicit_resolver(_TAG + _tag, re.compile(f"^(?:{_pattern})$"), _first)


@dataclass(frozen=True, kw_only=True)
class Node:
    """One value of a document: a scalar, a list or a mapping (keys are text, in the document's order)."""

    file: str
    line: int  # counted from 1
    kind: Kind
    scalar: Scalar = None
    source: str = ""  # a scalar as it is written, without quotes
    items: tuple[Node, ...] = ()
    entries: dict[str, Node] = field(default_factory=dict)
    key_lines: dict[str, int] = field(default_factory=dict)

    def error(self, message: str, *, cure: str = "", key: str | None = None) -> ConfigurationError:
        """The error to raise about this value, or about one of its keys."""
        line = self.line if key is None else self.key_lines.get(key, self.line)
        return ConfigurationError(f"{self.file}:{line}: {message}", cure=cure)

    def mode(self, path: Path, *, key: str | None = None) -> int:
        """The mode of the file or folder at a path that stands here, 0 where there is none.

        Raises ConfigurationError where that cannot be told: the path is too long, or barred.
        """
        try:
            return path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return 0
        except OSError as error:
            raise self.error(
                f"{path}: cannot be read: {error.strerror}", cure=cure_of(error), key=key
            ) from None

    def describe(self) -> str:
        """What stands here, for "expected …, found …"."""
        if self.kind == "nothing":
            return "nothing"
        if self.kind in ("list", "mapping"):
            return f"a {self.kind}"
        shown = self.source if len(self.source) <= 40 else self.source[:37] + "..."
        article = "an" if self.kind == "integer" else "a"
        return f'the text "{shown}"' if self.kind == "text" else f"{article} {self.kind} ({shown})"


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word most like `word`, or "" where none is like it."""
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
    try:
        with path.open("rb") as stream:
            raw = stream.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        near = nearest_file(path)
        cure = f"Did you mean {near}?" if near else ""
        raise ConfigurationError(f"{path}: there is no such file", cure=cure) from None
    except OSError as error:
        raise file_error(path, error) from error
    if len(raw) > LARGEST_FILE:
        raise ConfigurationError(f"{path}: is larger than {LARGEST_FILE >> 20} MiB: not a configuration file")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(f"{path}:{line}: is not UTF-8 text (byte {error.start})") from None
    return parse_document(text, str(path))


def parse_document(text: str, file: str) -> Node:
    """Parses a YAML text; `file` is used in messages. Raises ConfigurationError with file and line."""
    try:
        loader = _Loader(text)
        try:
            root = loader.get_single_node()
        finally:
            loader.dispose()
        if root is None:
            return Node(file=file, line=1, kind="nothing")
        return _convert(root, file)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        problem = " ".join(part for part in (error.context, error.problem) if part)
        raise ConfigurationError(f"{file}:{line}: {problem}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigurationError(
            f"{file}:{line}: the character U+{ord(text[error.position]):04X} is not allowed in YAML"
        ) from None
    except RecursionError:
        raise ConfigurationError(f"{file}: is nested too deeply") from None


def nearest_file(path: Path) -> Path | None:
    """The existing sibling whose name is most like `path`'s."""
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except (OSError, ValueError):
        return None
    near = nearest(path.name, names)
    return path.with_name(near) if near else None


def _convert(node: yaml.Node, file: str) -> Node:
    line = node.start_mark.line + 1
    tag = node.tag.removeprefix(_TAG)
    if isinstance(node, yaml.SequenceNode) and tag == "seq":
        items = tuple(_convert(item, file) for item in node.value)
        return Node(file=file, line=line, kind="list", items=items)
    if isinstance(node, yaml.MappingNode) and tag == "map":
        return _convert_mapping(node, file, line)
    if isinstance(node, yaml.ScalarNode):
        return _convert_scalar(node, file, line, tag)
    raise ConfigurationError(f"{file}:{line}: the tag {node.tag} is not supported")


def _convert_mapping(node: yaml.MappingNode, file: str, line: int) -> Node:
    entries: dict[str, Node] = {}
    lines: dict[str, int] = {}
    for key, value in node.value:
        key_line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise ConfigurationError(f"{file}:{key_line}: a key must be a word, not a list or a mapping")
        name = _characters(key.value, file, key_line)
        if name in entries:
            raise ConfigurationError(
                f"{file}:{key_line}: the key {name} is already set on line {lines[name]}"
            )
        entries[name] = _convert(value, file)
        lines[name] = key_line
    return Node(file=file, line=line, kind="mapping", entries=entries, key_lines=lines)


def _convert_scalar(node: yaml.ScalarNode, file: str, line: int, tag: str) -> Node:
    source = _characters(node.value, file, line)
    kind: Kind
    scalar: Scalar
    try:
        if tag == "str":
            kind, scalar = "text", source
        elif tag == "int":
            kind, scalar = "integer", int(source)
        elif tag == "float":
            kind, scalar = "number", float(source)
            if not math.isfinite(scalar):
                raise ValueError
        elif tag == "bool":
            kind, scalar = "boolean", {"true": True, "false": False}[source.lower()]
        elif tag == "null":
            kind, scalar = "nothing", None
        else:
            raise ConfigurationError(f"{file}:{line}: the tag {node.tag} is not supported")
    except (ValueError, KeyError):
        raise ConfigurationError(f'{file}:{line}: "{source[:40]}" is not a usable {tag}') from None
    return Node(file=file, line=line, kind=kind, scalar=scalar, source=source)


def _characters(text: str, file: str, line: int) -> str:
    """Joins the halves of characters that are written as JSON writes them, `\\ud83d\\ude00`."""
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ConfigurationError(f"{file}:{line}: holds half a character (a lone surrogate)") from None
