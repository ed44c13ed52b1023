"""What a release needs: one version everywhere, and documentation of each version beside the others."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from documented_commands import REPOSITORY, scripts

import harness


def test_all_files_name_the_same_version() -> None:
    changes = (REPOSITORY / "CHANGELOG.md").read_text()
    newest = re.search(r"^## (\d+\.\d+\.\d+) - \d{4}-\d\d-\d\d$", changes, re.MULTILINE)
    assert newest is not None
    cited = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())["version"]
    assert newest[1] == cited == harness.__version__


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of the checkout, in which mike may write its branch."""
    folder = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(REPOSITORY), str(folder)], check=True)
    for key, value in (("user.name", "tests"), ("user.email", "tests@localhost")):
        subprocess.run(["git", "config", key, value], cwd=folder, check=True)
    return folder


def test_the_documentation_of_a_version_lies_beside_that_of_others(clone: Path) -> None:
    """By the commands of CONTRIBUTING.md, for two versions."""
    (script,) = (block for block in scripts(REPOSITORY / "CONTRIBUTING.md") if "mike deploy" in block)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PATH": path}
    for version in ("0.1", "0.2"):
        commands = script.replace("0.1", version)
        subprocess.run(["bash", "-euc", commands], cwd=clone, env=environment, check=True)

    def published(path: str) -> str:
        words = ["git", "show", f"gh-pages:{path}"]
        return subprocess.run(words, cwd=clone, check=True, capture_output=True, text=True).stdout

    versions = {each["version"]: each["aliases"] for each in json.loads(published("versions.json"))}
    assert versions == {"0.1": [], "0.2": ["latest"]}
    for folder in versions:
        assert "harness" in published(f"{folder}/tutorial/index.html")
    assert "latest" in published("index.html")
