"""The commands of README, CONTRIBUTING and docs/ run as they are written, page by page and in order."""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import pytest
from arm64_board import running_board
from documented_commands import PAGES, REPOSITORY, scripts
from documented_folders import FOLDERS, PageFolder
from ssh_server import Server

from harness.images.availability import emulation_missing
from harness.prediction.llvm import find_llvm
from harness.qemu.profiler import profiling_missing

pytestmark = [pytest.mark.engine, pytest.mark.emulation]

TUTORIAL = "tutorial.md"  # test_tutorial.py follows it in a clean Debian
# Blocks that do not run here, by words of theirs: why, and what runs them or the nearest to them.
EXCEPTIONS = {
    "README.md": {
        "doctor --install && .venv/bin/harness run": "test_tutorial.py, in a clean Debian",
        "harness doctor --install --tests": "all tests; .ci/run runs this line",
        "harness --completion zsh": "test_tutorial.py, each line in its own shell",
    },
    "CONTRIBUTING.md": {
        "harness doctor --install --tests": "the README's line, which .ci/run runs",
        "-DMPE_BUILD_TESTS=ON": "minutes of compiling; test_engine_sanitizers.py runs this line",
        "mike deploy": "writes a branch of the checkout; test_release.py runs it in a clone",
    },
    "cluster.md": {
        "dask scheduler": "servers for several machines; test_search_cluster.py starts them",
        "--scheduler": "needs those servers; test_search_cluster.py runs this command",
    },
    "github-actions.md": {
        "sudo venv/bin/harness doctor --install": "for another machine; test_tutorial.py installs the same",
    },
    "labgrid.md": {
        "harness run": "needs a coordinator; test_labgrid_sweep.py runs a sweep with one",
        "boards unlock": "needs a coordinator; test_labgrid.py releases a place with one",
    },
    "performance.md": {
        "-DMPE_BUILD_BENCHMARKS=ON": "minutes of compiling; test_engine_sanitizers.py builds and runs it",
    },
    "prediction.md": {
        "tools.boardmodel validate": "an hour; test_boardmodel.py runs it for four networks",
        "tools.boardmodel versions": "half an hour; test_boardmodel_versions.py runs it with kept profiles",
    },
    "viewers.md": {"pip install ai-edge-model-explorer": "test_tutorial.py, in a clean Debian"},
}
# Lines that may end with another status than 0, by words of theirs.
STATUSES = {
    "compare.md": {"--fail-on": 7},  # a busy machine was slower
    "history.md": {"--fail-on": 7},
}
SHORTER = {
    "finetune.md": ("--budget 20m", "--epochs 1"),
    "measurement.md": ("--sustained 30m", "--sustained 5s"),
}
SHOWN = 3000  # characters of a failure's output


def kept(page: Path) -> list[str]:
    """The blocks of a page that run here."""
    if page.name == TUTORIAL:
        return []
    exceptions = EXCEPTIONS.get(page.name, {})
    return [script for script in scripts(page) if not any(words in script for words in exceptions)]


def as_run(page: Path, script: str) -> str:
    """The block with the other statuses that its lines may have, and shorter where it takes half an hour."""
    long, short = SHORTER.get(page.name, ("", ""))
    lines = script.replace(long, short).splitlines(keepends=True)
    for words, status in STATUSES.get(page.name, {}).items():
        lines = [f"{line.rstrip()} || [ $? = {status} ]\n" if words in line else line for line in lines]
    return "".join(lines)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """`harness`, `python` and `pip` are those of these tests. A block's own `pip` asks no index."""
    programs = tmp_path_factory.mktemp("bin")
    python = shlex.quote(sys.executable)
    commands = {
        "harness": f"{python} -m harness",
        "python": python,
        "pip": f"env PIP_NO_INDEX=1 {python} -m pip",
    }
    for name, words in commands.items():
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        program.chmod(0o755)
    others = Path(sys.executable).parent  # such as CMake and Ninja
    return os.environ | {
        "PATH": f"{programs}:{others}:{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
    }


@pytest.fixture(scope="module")
def boards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Server]]:
    """A board over SSH, started for the first page that asks for it."""
    with contextlib.ExitStack() as stack:
        yield functools.cache(lambda: stack.enter_context(running_board(tmp_path_factory.mktemp("board"))))


@pytest.mark.parametrize("page", [page for page in PAGES if kept(page)], ids=lambda page: page.name)
def test_the_commands_run_as_they_are_written(
    page: Path, environment: dict[str, str], boards: Callable[[], Server], tmp_path: Path
) -> None:
    if missing := [*emulation_missing(), *profiling_missing()]:
        pytest.skip("; ".join(missing))
    if find_llvm() is None:
        pytest.skip("needs llvm-mca")
    shell = shutil.which("bash")
    assert shell
    whole = environment | {name: str(tmp_path / name) for name in ("GITHUB_STEP_SUMMARY", "GITHUB_PATH")}
    text = page.read_text(encoding="utf-8")
    FOLDERS[page.name](PageFolder(tmp_path, whole, text, boards))
    for script in map(functools.partial(as_run, page), kept(page)):
        done = subprocess.run(
            [shell, "-euo", "pipefail", "-c", script],
            cwd=tmp_path,
            env=whole,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        said = f"{script}\n{done.stdout[-SHOWN:]}\n{done.stderr[-SHOWN:]}"
        assert done.returncode == 0, f"status {done.returncode}: {said}"
        assert "Traceback" not in done.stderr, said


def test_every_block_runs_or_is_an_exception() -> None:
    pages = {page.name: page for page in PAGES}
    assert {page.name for page in PAGES if kept(page)} == FOLDERS.keys()
    longer = {name: (long,) for name, (long, _) in SHORTER.items()}
    tables: tuple[Mapping[str, Iterable[str]], ...] = (EXCEPTIONS, STATUSES, longer)
    for name, exceptions in (item for table in tables for item in table.items()):
        for words in exceptions:
            matching = [script for script in scripts(pages[name]) if words in script]
            assert len(matching) == 1, f"{name}: {len(matching)} blocks have the words {words!r}"


def test_exceptions_name_what_there_is() -> None:
    for exceptions in EXCEPTIONS.values():
        for reason in exceptions.values():
            for word in reason.replace(";", " ").split():
                if word.endswith(".py"):
                    assert [*REPOSITORY.glob(f"tests/*/{Path(word).name}")], word
