"""Paths of files that are not Python: beside the package in a checkout, inside it in a wheel."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from harness.errors import ConfigurationError

_PACKAGE = Path(__file__).resolve().parent
# The entries that harness creates in the cache folder.
_OWN = {
    *("build", "checks", "costs.sqlite", "costs.sqlite-shm", "costs.sqlite-wal", "cpu", "doctor.log"),
    *("dockerd.log", "evaluations", "images", "locks", "qemu", "random_weights", "received", "sdk", "zig"),
}


def resource(*parts: str) -> Path:
    """The path of a file or folder below engine/, toolchains/, device_images/ or cfg/."""
    installed = _PACKAGE / "_resources"
    return (installed if installed.is_dir() else _PACKAGE.parent).joinpath(*parts)


def cache_directory() -> Path:
    """The folder of builds, images and downloads: $HARNESS_CACHE, else the user's cache folder.

    It is created for this user only, because programs are run from it. Raises ConfigurationError if another
    user could change its content. If it cannot be created, the first write fails.
    """
    chosen = os.environ.get("HARNESS_CACHE")
    if chosen:
        path = Path(chosen).absolute()  # compilers run in other folders
    else:
        base = os.environ.get("XDG_CACHE_HOME")
        path = (Path(base).absolute() if base else Path.home() / ".cache") / "harness"
    with contextlib.suppress(OSError):
        path.mkdir(mode=0o700, parents=True)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        _check_private(path, ours=not chosen)
    return path


def _check_private(path: Path, *, ours: bool) -> None:
    """Removes the permissions of others if the folder is `ours` or contains only the cache."""
    link = path.lstat()
    try:
        folder = path.stat()
    except OSError as error:
        if not stat.S_ISLNK(link.st_mode):
            raise
        raise _unfit(path, f"is a dangling symbolic link ({error.strerror})") from None
    if not stat.S_ISDIR(folder.st_mode):
        raise _unfit(path, "is not a folder")
    for status, what in ((link, "is a symbolic link that"), (folder, "")):
        if status.st_uid != os.geteuid() and (not what or (stat.S_ISLNK(status.st_mode) and status.st_uid)):
            raise _unfit(path, f"{what} belongs to another user ({_user(status.st_uid)})".strip())
    if not folder.st_mode & 0o077:
        return
    if ours or {entry.name for entry in path.iterdir() if entry.suffix != ".tmp"} <= _OWN:
        path.chmod(0o700)
    elif folder.st_mode & 0o022:  # do not change the permissions of a folder with other files
        raise _unfit(path, f"can be written to by other users (mode {stat.S_IMODE(folder.st_mode):o})")


def _user(number: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"number {number}"


def _unfit(path: Path, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"the cache folder {path} {why}",
        hint="harness runs programs from its cache folder: set HARNESS_CACHE to a folder that only you can "
        "write to.",
    )
