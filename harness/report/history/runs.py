"""The runs of a history: from results folders, or from the commits of a repository that keeps its results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import console
from harness.errors import ConfigurationError
from harness.report.compare.side import Side, read_run
from harness.report.history.repository import committed_results
from harness.store.read_only import stored_results
from harness.store.schema import FILE_NAME


@dataclass(frozen=True, kw_only=True)
class DatedRun:
    """A run with its cells, and the name that readers know it by."""

    name: str
    side: Side
    commit: str = ""  # the first commit that has it


def runs_of_folders(folders: Sequence[Path]) -> list[DatedRun]:
    """All runs in the folders, which are results folders or contain some. Raises ConfigurationError if one
    has no results, or damaged ones."""
    found = dict.fromkeys(inner for folder in folders for inner in _results_folders(folder))
    runs = []
    with console.progress("results folders", len(found)) as progress:
        for folder in found:
            runs += [DatedRun(name=name, side=side) for name, side in _read(folder, str(folder))]
            progress.advance()
    return runs


def runs_of_commits(revision: str, folders: Sequence[Path]) -> list[DatedRun]:
    """All runs in the folders as any commit of a branch has them. Raises ConfigurationError if git has none,
    or if results are damaged."""
    runs = []
    with console.progress("versions of results", None) as progress:
        for commit, name, folder in committed_results(revision, folders):
            runs += [DatedRun(name=found, side=side, commit=commit) for found, side in _read(folder, name)]
            progress.advance()
    return runs


def _results_folders(folder: Path) -> list[Path]:
    if (folder / FILE_NAME).exists() or not folder.is_dir():
        return [folder]
    found = sorted(path.parent for path in folder.rglob(FILE_NAME))
    if not found:
        raise ConfigurationError(
            f"{folder}: no results ({FILE_NAME}) in it or below",
            hint="Name results folders that `harness run` printed, or a folder that contains them.",
        )
    return found


def _read(folder: Path, name: str) -> Iterator[tuple[str, Side]]:
    """The runs of a results folder with their names, which are those that `harness compare` takes."""
    with stored_results(folder) as store:
        runs = store.runs()
        for run in runs:
            yield (name if len(runs) == 1 else f"{name}@{run.id}"), read_run(store, run)
