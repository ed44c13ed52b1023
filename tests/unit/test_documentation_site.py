"""The documentation site: its list of pages, its generated pages, and links that work there and on GitHub."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from documented_commands import PAGES, REPOSITORY

from harness import cli
from tools.documentation_site import FROM_THE_ROOT, commands_page, with_links_of_the_site
from tools.report_pictures import pictures


def listed(entry: object) -> Iterator[str]:
    """The pages of a part of mkdocs.yml's nav."""
    if isinstance(entry, str):
        yield entry
    for inner in entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else ():
        yield from listed(inner)


def test_the_navigation_has_every_page_once() -> None:
    document = yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8"))
    pages = [path.name for path in (REPOSITORY / "docs").glob("*.md")]
    assert sorted(listed(document["nav"])) == sorted([*pages, *FROM_THE_ROOT.values(), "commands.md"])


def test_the_tutorial_shows_the_pictures_that_the_build_draws() -> None:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    tutorial = (REPOSITORY / "docs" / "tutorial.md").read_text(encoding="utf-8")
    drawn = pictures()
    assert re.findall(r"!\[[^\]]+\]\(([^)]+)\)", tutorial) == [*drawn]
    words = html.unescape(" ".join(re.findall(r">([^<]+)<", drawn["tutorial-report.svg"])))
    assert "digits on pi4 (predicted)" in words.replace("\xa0", " ")
    assert "predicted FPS" in drawn["tutorial-front.svg"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_relative_links_lead_to_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        assert re.match(r"[a-z]+:", target) or (page.parent / target).exists(), target


def test_the_page_of_commands_has_all_of_them() -> None:
    text = commands_page()
    titles = [line for line in text.splitlines() if line.startswith("## harness ")]
    assert titles == list(dict.fromkeys(titles))
    assert {f"## harness {command}" for command in [*cli.COMMANDS, "models fetch", "boards probe"]} <= {
        *titles
    }
    assert "--max-drop" in text


@pytest.mark.parametrize(
    ("source", "link", "expected"),
    [
        ("README.md", "[a](docs/b.md#c)", "[a](b.md#c)"),
        ("README.md", "![a](docs/p.svg)", "![a](p.svg)"),
        ("docs/b.md", "[a](../README.md)", "[a](index.md)"),
        ("docs/b.md", "[a](../cfg/sweeps)", "a"),
        ("docs/b.md", "[a](https://example.org/x)", "[a](https://example.org/x)"),
        ("docs/b.md", "[a](#part)", "[a](#part)"),
    ],
)
def test_links_are_those_of_the_site(source: str, link: str, expected: str) -> None:
    assert with_links_of_the_site(f"x {link}.", source, {"b.md", "p.svg", "index.md"}) == f"x {expected}."
