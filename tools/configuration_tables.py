"""Writes the tables of keys in docs/configuration.md from the JSON schemas of `harness schema`.

python -m tools.configuration_tables
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from harness.commands.schema import KINDS, schema_of

PAGE = Path(__file__).resolve().parents[1] / "docs" / "configuration.md"
_PART = r"(<!-- keys of {kind} files -->\n).*?(<!-- end -->)"


def page(text: str) -> str:
    """The page with its tables made anew. Raises ValueError where it has no place for one."""
    for kind in KINDS:
        tables = "\n".join(_tables(schema_of(kind), ""))
        text, found = re.subn(
            _PART.format(kind=kind), rf"\g<1>{_escaped(tables)}\n\g<2>", text, flags=re.DOTALL
        )
        if found != 1:
            raise ValueError(f"{PAGE}: has {found} places for the keys of {kind} files")
    return text


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\")


def _tables(schema: dict[str, Any], path: str) -> Iterator[str]:
    """A heading and a table for each mapping of a schema, the outer ones first."""
    for where, record in _records(schema, path):
        if where:
            yield f"### `{where}`: {record['title']}\n"
        yield "| key | meaning | default | example |\n|---|---|---|---|"
        for key, value in record["properties"].items():
            needed = key in record.get("required", ())
            default = "required" if needed else _code(value["default"]) if "default" in value else ""
            example = _code(value["examples"][0]) if "examples" in value else ""
            yield f"| `{key}` | {_cell(value['description'])} | {default} | {example} |"
        yield ""
        for key, value in record["properties"].items():
            yield from _tables(value, f"{where}.{key}" if where else key)


def _records(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The mappings with known keys that may stand at a path, with how the path goes on to them."""
    if "properties" in schema:
        yield path, schema
    for choice in schema.get("anyOf", ()):
        yield from _records(choice, path)
    if "items" in schema:
        yield from _records(schema["items"], f"{path}[]")
    for value in schema.get("patternProperties", {}).values():
        yield from _records(value, f"{path}.*")


def _code(value: object) -> str:
    if isinstance(value, float):
        return f"`{value:g}`"
    written = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10_000)
    return f"`{_cell(written.removesuffix(chr(10)).removesuffix('...').strip())}`"


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
