"""Builds the engine for a target: compiled once for all that share the program, then checked for each.

Layout below the cache: build/<target>-<toolchain>/<key>/ holds an `mpe` that has passed the target's gates
and its `manifest.json`; neither changes afterwards. `build.log` beside it holds the output of the last
compilation. An engine compiled in a target's image goes to build/<target>-<toolchain>-image/. The compilation
itself is in program.py.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness import console
from harness.build.elf import check_fits, read_needs
from harness.build.emulator import emulator_missing, find_emulator
from harness.build.instruction_sets import check_instruction_sets
from harness.build.lock import exclusive
from harness.build.manifest import read_manifest, read_sources, write_manifest
from harness.build.program import is_whole, provide_program, remove_old
from harness.build.request import BuildRequest
from harness.build.self_test import self_test
from harness.build.toolchain import Place, Toolchain, check_path, load_toolchain
from harness.config.targets import Target
from harness.errors import BuildError
from harness.resources import cache_directory
from harness.temporary import fresh_folder

_MANIFEST = "manifest.json"


@dataclass(frozen=True, kw_only=True)
class EngineBuild:
    """A finished build."""

    target: Target
    toolchain: str
    place: Place  # where it was compiled
    compiler: str
    flags: str  # in addition to the project's own
    engine: Path
    manifest: Path
    glibc_needed: str
    seconds: float
    cached: bool  # found complete in the cache
    compiled: bool  # by this call, not earlier for this or another target

    @property
    def bytes(self) -> int:
        """The program's size."""
        return self.engine.stat().st_size


def build_engine(
    target: Target, *, toolchain: str | Toolchain = "zig", flags: str = "", ablation: bool = False
) -> EngineBuild:
    """Builds `mpe`, or finds the build of the same sources; either way it has passed the target's gates.

    `flags` go to the compiler in addition to the project's own; `ablation` adds the algorithms of
    ablation.py. Raises BuildError (the compiler, the self-test) or TargetMismatchError (glibc, libraries,
    instruction set).
    """
    started = time.monotonic()
    chosen = load_toolchain(toolchain) if isinstance(toolchain, str) else toolchain
    name = f"{target.name}-{chosen.name}" + ("-image" if chosen.place == "image" else "")
    folder = cache_directory() / "build" / name
    with exclusive(folder / "lock", f"another build of {target.name}"), _files_in(folder):
        sources = read_sources(chosen)
        request = BuildRequest(
            target=target, toolchain=chosen, flags=flags, ablation=ablation, sources=sources
        )
        result = folder / request.key
        cached = is_whole(result, _MANIFEST)
        compiled = False
        if not cached:
            compiled = _build(request, result)
        elif _self_test_pending(target, result):
            _test(target, result)
        os.utime(result)
        remove_old(folder, _MANIFEST, keep=result)
    manifest = read_manifest(result / _MANIFEST) or {}
    return EngineBuild(
        target=target,
        toolchain=chosen.name,
        place=chosen.place,
        compiler=str(manifest["compiler"]),
        flags=flags,
        engine=result / "mpe",
        manifest=result / _MANIFEST,
        glibc_needed=str(manifest["glibc_needed"]),
        seconds=time.monotonic() - started,
        cached=cached,
        compiled=compiled,
    )


@contextlib.contextmanager
def _files_in(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BuildError(
            f"{error.filename or folder}: {error.strerror}",
            hint="Builds write to the cache folder: make room there, or set HARNESS_CACHE to another folder.",
        ) from error


def _build(request: BuildRequest, result: Path) -> bool:
    """Puts the program through the target's gates. Returns whether it had to be compiled first."""
    target, folder = request.target, result.parent
    check_path(folder, hint="Set HARNESS_CACHE to another folder, or rename the target's own file.")
    with fresh_folder(result, replace=True) as fresh:
        record = provide_program(request, fresh, folder / "build.log")
        compiled = bool(record.pop("compiled"))
        check_instruction_sets(record["flags"], target)  # type: ignore[arg-type]
        needs = read_needs(fresh / "mpe")
        check_fits(needs, target, "the engine")
        manifest: dict[str, object] = {
            "target": target.name,
            "architecture": target.architecture,
            "cpu": target.cpu,
            "glibc": target.glibc,
            "glibc_needed": needs.glibc,
            "libraries": list(needs.libraries),
            "self_test": None,
        }
        write_manifest(fresh / _MANIFEST, manifest | record)
        _test(target, fresh)
    return compiled


def _test(target: Target, folder: Path) -> None:
    """Runs the self-test if this machine can, and adds its report to the manifest."""
    manifest = read_manifest(folder / _MANIFEST) or {}
    emulator = find_emulator(target)
    if emulator is None:
        missing = ", ".join(emulator_missing(target))
        console.log(
            f"{target.name}: skipping the self-test, which needs {missing} "
            "(`harness doctor --install` installs it)"
        )
        return
    manifest["self_test"] = self_test(folder / "mpe", target, emulator)
    write_manifest(folder / _MANIFEST, manifest)


def _self_test_pending(target: Target, result: Path) -> bool:
    """Whether a cached build has not been tested, although an emulator is installed by now."""
    manifest = read_manifest(result / _MANIFEST) or {}
    return manifest.get("self_test") is None and find_emulator(target) is not None
