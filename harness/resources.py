"""Where the files lie that are not Python: in a checkout beside the package, in a wheel inside it."""

from __future__ import annotations

import os
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def resource(*parts: str) -> Path:
    """The path of a file or folder below engine/, toolchains/, device_images/ or cfg/."""
    installed = _PACKAGE / "_resources"
    return (installed if installed.is_dir() else _PACKAGE.parent).joinpath(*parts)


def cache_directory() -> Path:
    """Where builds, images and downloads are kept: $HARNESS_CACHE, else the user's cache folder."""
    if chosen := os.environ.get("HARNESS_CACHE"):
        return Path(chosen).absolute()  # compilers run in other folders
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base).absolute() if base else Path.home() / ".cache") / "harness"
