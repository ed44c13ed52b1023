"""Builds the engine's tests with CMake and Ninja, as `harness build` builds the engine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.build.toolchain import build_tool

ENGINE = Path(__file__).resolve().parents[2] / "engine"


def run(
    argv: Sequence[str | Path], *, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> str:
    """Runs a program; its output is the failure's message."""
    words = [str(word) for word in argv]
    done = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
    return done.stdout


def configure(
    folder: Path,
    options: Sequence[str],
    *,
    source: Path = ENGINE,
    environment: Mapping[str, str] | None = None,
) -> None:
    cmake, ninja = build_tool("cmake"), build_tool("ninja")
    generator = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"]
    run([cmake, "-S", source, "-B", folder, *generator, *options], environment=environment)


def configure_and_build(
    folder: Path,
    options: Sequence[str],
    *,
    target: str = "all",
    environment: Mapping[str, str] | None = None,
) -> None:
    configure(folder, options, environment=environment)
    run([build_tool("ninja"), "-C", folder, target], environment=environment)
