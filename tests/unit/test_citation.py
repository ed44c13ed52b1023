"""CITATION.cff says what the package says."""

from __future__ import annotations

import tomllib
from pathlib import Path

import yaml

from harness import __version__

REPOSITORY = Path(__file__).resolve().parents[2]


def test_the_citation_agrees_with_the_package() -> None:
    citation = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert citation["title"] == project["name"]
    assert citation["version"] == __version__
    assert set(citation["keywords"]) == set(project["keywords"])
