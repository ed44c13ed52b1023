"""What is said of JSON: docs/reference.md, whose keys, exit statuses and queries are parsed, and schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from jsonschema import Draft202012Validator

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference.md"


@cache
def keys(command: str) -> frozenset[str]:
    """The paths that the page names for a command, or under another title; none where it has no table."""
    for title, section in re.findall(r"^### (.*)\n((?:(?!##).*\n)*)", PAGE.read_text(), re.MULTILINE):
        if f"harness {command}" in title.split(", ") or title == command:
            first = [row.split("|")[1] for row in section.splitlines() if row.startswith("|")]
            return frozenset(key for cell in first for key in re.findall(r"`([^`]+)`", cell))
    raise AssertionError(f"docs/reference.md has no section of harness {command}")


def undocumented(command: str, document: object) -> list[str]:
    """The paths in a JSON document of a command that the page does not name."""
    named = keys(command)
    found = dict.fromkeys(path.removeprefix("[].") for path in _paths(document, "") if path)
    return [path for path in found if not _named(path, named)]


def _named(path: str, named: frozenset[str]) -> bool:
    parts = path.split(".")
    wild = any(".".join([*parts[:end], "*"]) in named for end in range(1, len(parts)))
    # What has nothing in it, or is null, has no keys of its own: those below it are named.
    below = any(key.startswith((f"{path}.", f"{path}[]")) for key in named)
    return path in named or wild or below


def _paths(value: object, path: str) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _paths(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, Sequence) and not isinstance(value, str) and value:
        for inner in value:
            yield from _paths(inner, f"{path}[]")
    else:
        yield path


def expect_valid(command: str, document: object) -> None:
    """Checks a document of a command that has a schema."""
    from harness.commands.schema import COMMANDS

    fitted = command == "predict" and isinstance(document, Mapping) and "predictions" not in document
    if command in COMMANDS and not fitted:  # --calibrate prints another document
        errors = [
            error.message for error in _validator(command).iter_errors(json.loads(json.dumps(document)))
        ]
        assert not errors, f"JSON of {command} does not fit `harness schema {command}`: {errors[:3]}"


@cache
def _validator(command: str) -> Draft202012Validator:
    from harness.commands.schema import schema_of

    schema = schema_of(command)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def statuses() -> dict[int, str]:
    """Exit statuses with their meanings."""
    return {
        int(status): text
        for status, text in re.findall(r"^\| (\d+) \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    }


def queries() -> list[tuple[str, str]]:
    """Example queries, each with its output."""
    return re.findall(r"```sql\n(.*?)```\n```\n(.*?)```", PAGE.read_text(), re.DOTALL)


def view_columns() -> dict[str, list[str]]:
    """The columns of each view."""
    text = PAGE.read_text()
    (shared,) = re.findall(r"Every view begins with (.*?)\. Names", text, re.DOTALL)
    return {
        view: re.findall(r"`(\w+)`", shared) + re.findall(r"`(\w+)`", further)
        for view, further in re.findall(r"^\| `(report_\w+)` \| (.*) \|$", text, re.MULTILINE)
    }
