"""Builds the engine for a target: once per state of its sources, whole or not at all.

Layout below the cache: build/<target>-<toolchain>/<key>/ holds a finished `mpe` and its `manifest.json` and
never changes again; beside it `source/` is what CMake compiles, `work/` where, and `build.log` what the last
build printed. What is compiled in a target's image goes to build/<target>-<toolchain>-image/.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from harness import console
from harness.build.elf import check_fits, read_needs
from harness.build.emulator import emulator_missing, find_emulator
from harness.build.instruction_sets import check_instruction_sets
from harness.build.lock import exclusive
from harness.build.manifest import (
    FORMAT,
    build_key,
    compiler_flags,
    hash_sources,
    read_manifest,
    read_sources,
    write_manifest,
)
from harness.build.self_test import self_test
from harness.build.toolchain import Place, Toolchain, Tools, check_path, load_toolchain
from harness.configuration.targets import Target
from harness.errors import BuildError, ConfigurationError
from harness.file_digest import file_digest
from harness.resources import cache_directory

_KEPT_BUILDS = 5  # older ones of a target are removed
_TAIL, _WIDTH = 25, 160  # lines of the log that a failure shows, and characters of each


@dataclass(frozen=True, kw_only=True)
class EngineBuild:
    """A finished build."""

    target: Target
    toolchain: str
    place: Place  # where it was compiled
    compiler: str
    flags: str  # beside the project's own
    engine: Path
    manifest: Path
    glibc_needed: str
    seconds: float
    cached: bool

    @property
    def bytes(self) -> int:
        """The program's size."""
        return self.engine.stat().st_size


def build_engine(target: Target, *, toolchain: str | Toolchain = "zig", flags: str = "") -> EngineBuild:
    """Builds `mpe`, or finds the build of the same sources; either way it has passed the target's gates.

    `flags` go to the compiler beside the project's own. Raises BuildError (the compiler, the self-test) or
    TargetMismatchError (glibc, libraries, instruction set).
    """
    started = time.monotonic()
    chosen = load_toolchain(toolchain) if isinstance(toolchain, str) else toolchain
    name = f"{target.name}-{chosen.name}" + ("-image" if chosen.place == "image" else "")
    folder = cache_directory() / "build" / name
    with exclusive(folder / "lock", f"another build of {target.name}"), _files_in(folder):
        sources = read_sources(chosen)
        result = folder / build_key(target, chosen, flags, hash_sources(sources))
        cached = _is_whole(result)
        if not cached:
            _build(target, chosen, flags, sources, folder, result)
        elif _self_test_pending(target, result):
            _test(target, result)
        os.utime(result)
        _remove_old(folder, keep=result)
    manifest = read_manifest(result / "manifest.json") or {}
    return EngineBuild(
        target=target,
        toolchain=chosen.name,
        place=chosen.place,
        compiler=str(manifest["compiler"]),
        flags=flags,
        engine=result / "mpe",
        manifest=result / "manifest.json",
        glibc_needed=str(manifest["glibc_needed"]),
        seconds=time.monotonic() - started,
        cached=cached,
    )


@contextlib.contextmanager
def _files_in(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BuildError(
            f"{error.filename or folder}: {error.strerror}",
            cure="Builds need room below the cache folder; HARNESS_CACHE names another one.",
        ) from error


def _is_whole(result: Path) -> bool:
    manifest = read_manifest(result / "manifest.json")
    engine = result / "mpe"
    return manifest is not None and engine.is_file() and manifest.get("sha256") == file_digest(engine)


def _build(
    target: Target, toolchain: Toolchain, flags: str, sources: dict[str, bytes], folder: Path, result: Path
) -> None:
    started = time.monotonic()
    check_path(folder, cure="Set HARNESS_CACHE to another folder, or rename the target's own file.")
    work = folder / "work"
    source = folder / "source"  # a copy: nobody edits it while it is compiled
    _write_sources(source, sources)
    with (
        (folder / "build.log").open("w", encoding="utf-8") as log,
        toolchain.tools(target, folder) as tools,
    ):
        program = _compile(target, toolchain, tools, flags, source, work, log)
        record = tools.record()
    commands = compiler_flags(work / "compile_commands.json", source / "engine")
    needs = read_needs(program)
    check_fits(needs, target, "the engine")
    fresh = folder / f"{result.name}.new"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    shutil.copy2(program, fresh / "mpe")
    manifest: dict[str, object] = {
        "format": FORMAT,
        "target": target.name,
        "architecture": target.architecture,
        "cpu": target.cpu,
        "glibc": target.glibc,
        "toolchain": toolchain.name,
        "extra_flags": flags,
        "sha256": file_digest(fresh / "mpe"),
        "glibc_needed": needs.glibc,
        "libraries": list(needs.libraries),
        "seconds": round(time.monotonic() - started, 2),
        "self_test": None,
        "flags": commands,
        "sources": hash_sources(sources),
    } | record
    write_manifest(fresh / "manifest.json", manifest)
    _test(target, fresh)
    shutil.rmtree(result, ignore_errors=True)
    fresh.rename(result)


def _write_sources(folder: Path, sources: dict[str, bytes]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in sources.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _test(target: Target, folder: Path) -> None:
    """Runs the self-test where this machine can, and notes what came of it in the manifest."""
    manifest = read_manifest(folder / "manifest.json") or {}
    emulator = find_emulator(target)
    if emulator is None:
        missing = ", ".join(emulator_missing(target))
        console.log(
            f"{target.name}: the self-test is left out: it needs {missing} (`harness doctor --install`)"
        )
        return
    manifest["self_test"] = self_test(folder / "mpe", target, emulator)
    write_manifest(folder / "manifest.json", manifest)


def _self_test_pending(target: Target, result: Path) -> bool:
    """Whether a cached build was never run, and could be now."""
    manifest = read_manifest(result / "manifest.json") or {}
    return manifest.get("self_test") is None and find_emulator(target) is not None


def _compile(
    target: Target,
    toolchain: Toolchain,
    tools: Tools,
    flags: str,
    source: Path,
    work: Path,
    log: TextIO,
) -> Path:
    """Runs CMake and Ninja in `work`. Returns the program."""
    definitions = {
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_MAKE_PROGRAM": tools.ninja,
        "CMAKE_TOOLCHAIN_FILE": str(source / "toolchains" / toolchain.files[0].name),
        "MPE_EXTRA_FLAGS": ";".join(_words(flags)),
    } | toolchain.definitions(target)
    shutil.rmtree(work, ignore_errors=True)  # what was found for another compiler must not be found again
    work.mkdir()
    configure = [tools.cmake, "-S", str(source / "engine"), "-B", str(work), "-G", "Ninja"]
    configure += [f"-D{name}={value}" for name, value in definitions.items()]
    description = f"building the engine for {target.name} with {toolchain.version(target)}"
    hint = "" if tools.slow else " (a new glibc version takes a minute)"
    with console.progress(f"{description}: configuring{hint}", None):
        _run(tools, configure, log, target)
    check_instruction_sets(compiler_flags(work / "compile_commands.json", source / "engine"), target)
    step = re.compile(r"^\[\d+/\d+\] Building ")
    with console.progress(description, _source_count(work)) as progress:

        def advance(line: str) -> None:
            if step.match(line):
                progress.advance()

        _run(tools, [tools.ninja, "-C", str(work), "mpe"], log, target, on_line=advance)
    return work / "mpe"


def _words(flags: str) -> list[str]:
    try:
        return shlex.split(flags)
    except ValueError as error:
        raise ConfigurationError(f"the compiler flags {flags}: {error}") from None


def _source_count(work: Path) -> int:
    return len(json.loads((work / "compile_commands.json").read_text(encoding="utf-8")))


def _run(
    tools: Tools,
    command: list[str],
    log: TextIO,
    target: Target,
    on_line: Callable[[str], None] | None = None,
) -> None:
    """Runs a step with all it prints kept in the log. Raises BuildError with the log's end."""
    log.write(f"$ {shlex.join(command)}\n")
    lines: list[str] = []

    def keep(line: str) -> None:
        log.write(line)
        log.flush()
        lines.append(line.rstrip())
        if tools.slow and line.strip():
            console.log(f"  {line.rstrip()[:_WIDTH]}")
        if on_line is not None:
            on_line(line)

    status = tools.run(command, keep)
    if status != 0:
        tail = "\n".join(f"  | {line[:_WIDTH]}" for line in _failure(lines))
        raise BuildError(
            f"{target.name}: {Path(command[0]).name} failed with status {status}:\n{tail}",
            cure=f"The whole log: {log.name}",
        )


def _failure(lines: list[str]) -> list[str]:
    """The lines that say what went wrong: from the first failed step on, at most _TAIL."""
    first = next((n for n, line in enumerate(lines) if line.startswith(("FAILED:", "CMake Error"))), None)
    return lines[-_TAIL:] if first is None else lines[first : first + _TAIL]


def _remove_old(folder: Path, keep: Path) -> None:
    builds = [path for path in folder.iterdir() if (path / "manifest.json").is_file() and path != keep]
    builds.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in builds[_KEPT_BUILDS - 1 :]:
        shutil.rmtree(path, ignore_errors=True)
