"""The pages of the documentation site that are not in docs/: a hook of MkDocs (mkdocs.yml).

README.md becomes the first page, CONTRIBUTING.md and CHANGELOG.md are pages too. The page of all commands has
their `--help`, and the JSON schemas lie beside it. Links are written for GitHub; those
to files that the site lacks become plain text.
"""

from __future__ import annotations

import argparse
import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from harness import cli
from harness.commands.schema import COMMANDS, KINDS, schema_of

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

REPOSITORY = Path(__file__).resolve().parents[1]
FROM_THE_ROOT = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages and files. Pictures of reports take the place of those in docs/."""
    from mkdocs.structure.files import File

    from tools.report_pictures import pictures

    pages = {new: (REPOSITORY / old).read_text(encoding="utf-8") for old, new in FROM_THE_ROOT.items()}
    pages["commands.md"] = commands_page()
    for kind in (*KINDS, *COMMANDS):
        pages[f"{kind}.schema.json"] = json.dumps(schema_of(kind), indent=2)
    for name, content in (pages | pictures()).items():
        if (old := files.get_file_from_path(name)) is not None:
            files.remove(old)
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, *, page: Page, files: Files, **_: object) -> str:
    """Turns links of the repository into links of the site."""
    old_names = {new: old for old, new in FROM_THE_ROOT.items()}
    source = old_names.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    known = {file.src_uri for file in files}
    return with_links_of_the_site(markdown, source, known)


def with_links_of_the_site(markdown: str, source: str, known: set[str]) -> str:
    """The text of the page at the path `source` of the repository; `known` are the files of the site."""

    def rewritten(link: re.Match[str]) -> str:
        picture, text, target, anchor = link.groups()
        if re.match(r"[a-z]+:", target):
            return link[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        name = FROM_THE_ROOT.get(path, path.removeprefix("docs/"))
        return f"{picture}[{text}]({name}{anchor or ''})" if name in known else text

    return _LINK.sub(rewritten, markdown)


def commands_page() -> str:
    """The help of every command, as the terminal shows it."""
    lines = ["# Commands", ""]
    for parser in _parsers(cli._parser(cli.COMMANDS)):
        lines += [f"## {parser.prog}", "", "```text", parser.format_help().rstrip(), "```", ""]
    lines += ["## JSON schemas", "", "As `harness schema` prints them."]
    for what, kinds in (("configuration files", KINDS), ("documents of `--json`", COMMANDS)):
        lines += ["", f"For {what}: {', '.join(f'[{kind}]({kind}.schema.json)' for kind in kinds)}."]
    lines.append("")
    return "\n".join(lines)


def _parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A parser and those of its subcommands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _parsers(inner)
