"""JSON schemas of configuration files, and the page of the documentation that is made from them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from harness.boards.inventory import read_boards
from harness.commands.schema import KINDS, schema_of
from harness.sweep.schedule import PAUSES
from tools.configuration_tables import PAGE, page

REPOSITORY = Path(__file__).resolve().parents[2]


def properties(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every key that a schema knows, with its path."""
    if isinstance(schema, dict):
        for key, value in schema.get("properties", {}).items():
            yield f"{path}/{key}", value
        for key, value in schema.items():
            yield from properties(value, f"{path}/{key}")
    elif isinstance(schema, list):
        for value in schema:
            yield from properties(value, path)


def test_the_page_is_what_the_generator_writes() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page(text) == text, "run .venv/bin/python -m tools.configuration_tables"


def test_a_page_without_a_place_for_the_tables_is_an_error() -> None:
    with pytest.raises(ValueError, match="0 places for the keys of boards files"):
        page(PAGE.read_text(encoding="utf-8").replace("keys of boards", "keys of other"))


@pytest.mark.parametrize("kind", KINDS)
def test_every_key_has_a_sentence_and_an_example_that_fits(kind: str) -> None:
    schema = schema_of(kind)
    Draft202012Validator.check_schema(schema)
    found = dict(properties(schema))
    assert len(found) > 15
    for path, value in found.items():
        sentence = value["description"]
        assert not sentence[0].islower(), path
        assert sentence.endswith("."), path
        validator = Draft202012Validator(value)
        for example in value["examples"]:
            validator.validate(example)
        if "default" in value:
            validator.validate(value["default"])


@pytest.mark.parametrize(
    ("kind", "files"),
    [("sweep", "cfg/sweeps/*.yaml"), ("targets", "toolchains/targets/*.yaml")],
)
def test_files_that_ship_fit_the_schema(kind: str, files: str) -> None:
    validator = Draft202012Validator(schema_of(kind))
    paths = list(REPOSITORY.glob(files))
    assert paths
    for path in paths:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert [error.message for error in validator.iter_errors(content)] == [], path
        assert not validator.is_valid(content | {"polices": []})


def test_defaults_of_a_board_are_those_that_hold(tmp_path: Path) -> None:
    (tmp_path / "known").touch()
    path = tmp_path / "boards.yaml"
    path.write_text("boards: [{name: n, target: pi4, host: h, user: u, known_hosts: known}]")
    (board,) = read_boards(path)
    keys = schema_of("boards")["properties"]["boards"]["items"]["properties"]  # type: ignore[index]
    defaults = {key: value["default"] for key, value in keys.items() if "default" in value}
    assert defaults == {
        "port": board.address.port,
        "known_hosts": "~/.ssh/known_hosts",
        "folder": board.address.folder,
        "cache_limit_mb": board.address.cache_limit_bytes // 10**6,
        "wait_seconds": board.address.wait_seconds,
        "sudo": board.sensors.sudo,
        "retry": list(PAUSES),
    }
