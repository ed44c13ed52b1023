"""The commands in the documentation exist, with the options that they are given."""

from __future__ import annotations

import contextlib
import importlib.util
from pathlib import Path

import pytest
import yaml
from documented_commands import PAGES, arguments_of_harness, blocks, commands, scripts
from jsonschema import Draft202012Validator

from harness import cli
from harness.commands.schema import schema_of


def parse(arguments: list[str]) -> None:
    """Raises for a command line that `harness` refuses."""
    chosen = next((word for word in arguments if not word.startswith("-")), None)
    with contextlib.suppress(SystemExit):  # so --completion and --help end; wrong usage is another exception
        cli._parser({chosen}).parse_args(arguments)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_exists(page: Path) -> None:
    for script in scripts(page):
        for words in commands(script):
            if (arguments := arguments_of_harness(words)) is not None:
                parse(arguments)
            elif words[1:2] == ["-m"] and words[2] != "venv":
                assert importlib.util.find_spec(words[2]), words


def test_wrong_commands_would_be_found() -> None:
    (words,) = commands("harness report --no-such-option")
    with pytest.raises(cli._UsageError):
        parse(arguments_of_harness(words) or [])
    script = 'a && .venv/bin/harness x "y z" > f | sudo harness b'
    found = [arguments_of_harness(words) for words in commands(script)]
    assert found == [None, ["x", "y z"], ["b"]]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_whole_sweeps_fit_the_schema(page: Path) -> None:
    for block in blocks(page.read_text(encoding="utf-8"), "yaml"):
        document = yaml.safe_load(block)
        if isinstance(document, dict) and {"models", "policies", "targets"} <= document.keys():
            Draft202012Validator(schema_of("sweep")).validate(document)


def test_there_is_something_to_check() -> None:
    pages = {page.name for page in PAGES if scripts(page)}
    assert {"README.md", "tutorial.md", "github-actions.md", "search.md"} <= pages
