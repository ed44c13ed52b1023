"""Compiles the engine: once for all targets that it is compiled alike for, whole or not at all.

Layout below the cache: build/programs/<what for>/<key>/ holds a finished `mpe` and `program.json`, which says
what it was made of, and never changes again. Beside it `source/` is what CMake compiles, and `work/` where:
always there, as the compiler's own cache knows files by their paths.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shlex
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from harness.build.instruction_sets import check_instruction_sets
from harness.build.lock import exclusive
from harness.build.log import BuildLog, build_log
from harness.build.manifest import (
    FORMAT,
    compiler_flags,
    hash_sources,
    program_key,
    read_manifest,
    write_manifest,
)
from harness.build.toolchain import Toolchain, Tools, check_path
from harness.config.targets import Target
from harness.errors import BuildError, ConfigurationError
from harness.file_digest import file_digest
from harness.resources import cache_directory
from harness.temporary import fresh_folder, temporary_folder

KEPT = 5  # builds; older ones are removed
_ROOM = 50_000_000  # bytes; with less, a failure may come from that: compilers seldom say so
_NAME, _RECORD = "mpe", "program.json"
_STEP = re.compile(r"^\[\d+/\d+\] Building ")


def provide_program(
    target: Target, toolchain: Toolchain, flags: str, sources: dict[str, bytes], into: Path, log: Path
) -> dict[str, object]:
    """Puts the program into the folder `into`, compiled where it is not there yet.

    Returns what it was made of, for a manifest: compiler, cmake, ninja, built_in, flags (of each source),
    sources, sha256, seconds of compiling, and `compiled`, whether that was now. Then `log` holds what was
    printed. Raises BuildError, and TargetMismatchError where flags go beyond the target's core.
    """
    words = flag_words(flags)
    folder = cache_directory() / "build" / "programs" / _what_for(target, toolchain)
    with exclusive(folder / "lock", f"another build with {toolchain.name} for {target.architecture}"):
        program = folder / program_key(target, toolchain, flags, hash_sources(sources))
        compiled = not is_whole(program, _RECORD)
        if compiled:
            _build(target, toolchain, words, sources, program, log)
        os.utime(program)
        remove_old(folder, _RECORD, keep=program)
        record = read_manifest(program / _RECORD) or {}
        shutil.copy2(program / _NAME, into / _NAME)
    return record | {"compiled": compiled}


def is_whole(folder: Path, record: str) -> bool:
    """Whether a folder holds a program and the record of just that."""
    manifest = read_manifest(folder / record)
    program = folder / _NAME
    return manifest is not None and program.is_file() and manifest.get("sha256") == file_digest(program)


def remove_old(folder: Path, record: str, keep: Path) -> None:
    """Removes all but the last builds in a folder."""
    builds = [path for path in folder.iterdir() if (path / record).is_file() and path != keep]
    builds.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in builds[KEPT - 1 :]:
        shutil.rmtree(path, ignore_errors=True)


def flag_words(flags: str) -> list[str]:
    """Compiler flags as a shell would read them. Raises ConfigurationError."""
    try:
        return shlex.split(flags)
    except ValueError as error:
        raise ConfigurationError(f"the compiler flags {flags}: {error}") from None


def _what_for(target: Target, toolchain: Toolchain) -> str:
    """A folder's name: the same for targets that the compiler is told the same of."""
    told = json.dumps([toolchain.place, toolchain.compiles_for(target)], sort_keys=True)
    words = (toolchain.name, target.architecture, hashlib.sha256(told.encode()).hexdigest()[:12])
    return "-".join(words)


def _build(
    target: Target,
    toolchain: Toolchain,
    flags: list[str],
    sources: dict[str, bytes],
    program: Path,
    log: Path,
) -> None:
    started = time.monotonic()
    folder = program.parent
    check_path(folder, hint="Set HARNESS_CACHE to another folder.")
    title = f"engine {target.name} with {toolchain.version(target)}"
    with (
        build_log(log, title) as printed,
        toolchain.tools(target, folder) as tools,
        temporary_folder("aside", within=folder) as aside,
        fresh_folder(program, replace=True) as finished,
    ):
        source = _emptied(folder / "source", aside)  # a copy: nobody edits it while it is compiled
        work = _emptied(folder / "work", aside)  # what was found for another compiler is not found again
        for name, content in sources.items():
            path = source / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        made = _compile(target, toolchain, tools, flags, source, work, printed)
        record: dict[str, object] = {
            "format": FORMAT,
            "toolchain": toolchain.name,
            "compiled_for": toolchain.compiles_for(target),
            "extra_flags": shlex.join(flags),
            "sha256": file_digest(made),
            "seconds": round(time.monotonic() - started, 2),
            "flags": compiler_flags(work / "compile_commands.json", source / "engine"),
            "sources": hash_sources(sources),
        } | tools.record()
        shutil.copy2(made, finished / _NAME)
        write_manifest(finished / _RECORD, record)
        shutil.rmtree(work, ignore_errors=True)


def _emptied(folder: Path, aside: Path) -> Path:
    """A folder that is new. The one that had its name goes to `aside` first: what was killed together with
    its harness may write there for another moment."""
    with contextlib.suppress(FileNotFoundError):
        folder.rename(aside / folder.name)
    folder.mkdir()
    return folder


def _compile(
    target: Target,
    toolchain: Toolchain,
    tools: Tools,
    flags: list[str],
    source: Path,
    work: Path,
    log: BuildLog,
) -> Path:
    """Runs CMake and Ninja in `work`. Returns the program."""
    definitions = {
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_MAKE_PROGRAM": tools.ninja,
        "CMAKE_TOOLCHAIN_FILE": str(source / "toolchains" / toolchain.files[0].name),
        "MPE_EXTRA_FLAGS": ";".join(flags),
    } | toolchain.definitions(target)
    configure = [tools.cmake, "-S", str(source / "engine"), "-B", str(work), "-G", "Ninja"]
    configure += [f"-D{name}={value}" for name, value in definitions.items()]
    log.at("configuring" if tools.slow else "configuring (a new glibc version takes a minute)")
    _run(tools, configure, log, target, log.line)
    # Before a minute of compiling: whoever asks for the program later checks it again for his target.
    check_instruction_sets(compiler_flags(work / "compile_commands.json", source / "engine"), target)
    with log.counting("compiling", _source_count(work)) as progress:

        def advance(line: str) -> None:
            log.line(line)
            if _STEP.match(line):
                progress.advance()

        _run(tools, [tools.ninja, "-C", str(work), _NAME], log, target, advance)
    return work / _NAME


def _source_count(work: Path) -> int:
    return len(json.loads((work / "compile_commands.json").read_text(encoding="utf-8")))


def _run(
    tools: Tools, command: list[str], log: BuildLog, target: Target, on_line: Callable[[str], None]
) -> None:
    """Runs a step with all it prints kept in the log. Raises BuildError."""
    log.keep(f"$ {shlex.join(command)}")
    status = tools.run(command, on_line)
    if status != 0:
        folder = Path(log.name).parent
        free = shutil.disk_usage(folder).free
        raise BuildError(
            f"{target.name}: {Path(command[0]).name} failed with status {status}",
            hint=f"Only {free / 1e6:.0f} MB are free in {folder}: make room, or set HARNESS_CACHE to another "
            "folder."
            if free < _ROOM
            else "",
        )
