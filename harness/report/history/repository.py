"""Results folders as the commits of a Git branch have them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from harness.errors import ConfigurationError
from harness.store.schema import FILE_NAME
from harness.temporary import temporary_folder
from harness.text import brief


def committed_results(revision: str, folders: Sequence[Path]) -> Iterator[tuple[str, str, Path]]:
    """Every version of the results in or below `folders` on a branch, the earliest first: the commit, the
    folder's name, and a temporary copy of the folder, which exists until the next one is taken.

    Raises ConfigurationError if there is no such repository, branch or folder in it.
    """
    paths = [str(folder) for folder in folders]
    listed = _git("rev-list", "--first-parent", "--reverse", "--end-of-options", revision, "--", *paths)
    seen: set[str] = set()
    for commit in listed.decode().split():
        for blob, name in _stores(commit, paths):
            if blob not in seen:
                seen.add(blob)
                with temporary_folder("results") as copy:
                    (copy / FILE_NAME).write_bytes(_git("cat-file", "blob", blob))
                    yield commit, name, copy
    if not seen:
        raise ConfigurationError(
            f"no commit of {revision} has results ({FILE_NAME}) in {', '.join(paths)}",
            hint="Commit the results folders, or leave --git out to read them from the disk.",
        )


def _stores(commit: str, paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The blob and the folder of each store in a commit."""
    for line in _git("ls-tree", "-r", "-z", commit, "--", *paths).decode("utf-8", "replace").split("\0"):
        about, _, path = line.partition("\t")
        if path and PurePosixPath(path).name == FILE_NAME:
            yield about.split()[2], str(PurePosixPath(path).parent)


def _git(*words: str) -> bytes:
    try:
        done = subprocess.run(["git", *words], capture_output=True, check=False, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise ConfigurationError("--git: git is not installed", hint="Install git.") from None
    if done.returncode:
        reason = brief(done.stderr.decode("utf-8", "replace"))
        raise ConfigurationError(
            f"git {words[0]}: {reason}",
            hint="Run the command within the repository, and name a branch or commit of it with --git.",
        )
    return done.stdout
