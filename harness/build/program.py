"""Compiles the engine: once per architecture and toolchain, for the oldest C library among the targets.

A program contains the kernels of all instruction sets of its architecture and chooses at run time, so targets
share it. A target with an older C library or a sysroot of its own gets a program of its own.

Layout below the cache: build/programs/<toolchain-architecture-hash>/<key>/ holds a finished `mpe` and
`program.json`, the record of its inputs; neither changes afterwards. Beside it CMake compiles the copy in
`source/` in the folder `work/`: the same paths every time, because Zig keeps what it compiled and knows a
file by its path. So a build for the ablation, or after a change of a few files, compiles only what differs.
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
from pathlib import Path

from harness.build.elf import check_fits, read_needs
from harness.build.instruction_sets import check_instruction_sets
from harness.build.lock import exclusive
from harness.build.log import BuildLog, build_log
from harness.build.manifest import FORMAT, compiler_flags, read_manifest, write_manifest
from harness.build.request import BuildRequest, flag_words
from harness.build.toolchain import Tools, check_path
from harness.config.targets import Target
from harness.errors import BuildError
from harness.file_digest import file_digest
from harness.resources import cache_directory
from harness.temporary import fresh_folder, temporary_folder

KEPT = 5  # builds per folder, at least
_IN_USE_SECONDS = 24 * 3600  # a sweep may still execute the build that it began with
_ROOM = 50_000_000  # bytes; with less free space, that may be the cause of a failure: compilers rarely say so
_NAME, _RECORD = "mpe", "program.json"
_STEP = re.compile(r"^\[\d+/\d+\] Building ")


def provide_program(request: BuildRequest, into: Path, log: Path) -> dict[str, object]:
    """Copies the program into the folder `into`. Compiles it first if the cache does not have it.

    Returns its record for a manifest: compiler, cmake, ninja, built_in, flags (of each source), sources,
    sha256, seconds of compiling, and `compiled`: whether this call compiled it. If so, `log` holds the output
    of the compiler. Raises BuildError, and TargetMismatchError for flags that exceed the target's core.
    """
    words = flag_words(request.flags)
    with _locked(request) as folder:
        program = folder / request.program_key
        compiled = not is_whole(program, _RECORD)
        if compiled:
            _build(request, words, program, log)
        os.utime(program)
        remove_old(folder, _RECORD, keep=program)
        record = read_manifest(program / _RECORD) or {}
        shutil.copy2(program / _NAME, into / _NAME)
    return record | {"compiled": compiled}


@contextlib.contextmanager
def placed_sources(request: BuildRequest) -> Iterator[Path]:
    """A folder with the sources at the path from which the request's program is compiled, for other programs
    of the same files. No other build uses it meanwhile."""
    with _locked(request) as folder:
        yield _copied_sources(request, folder / "source")


@contextlib.contextmanager
def _locked(request: BuildRequest) -> Iterator[Path]:
    """The folder of the request's programs, for this build alone."""
    folder = cache_directory() / "build" / "programs" / request.folder_name
    waiting_for = f"another build with {request.toolchain.name} for {request.target.architecture}"
    with exclusive(folder / "lock", waiting_for):
        yield folder


def is_whole(folder: Path, record: str) -> bool:
    """Whether a folder holds a program and its record."""
    manifest = read_manifest(folder / record)
    program = folder / _NAME
    return manifest is not None and program.is_file() and manifest.get("sha256") == file_digest(program)


def remove_old(folder: Path, record: str, keep: Path) -> None:
    """Removes old builds in a folder. The most recent ones stay, and all that were used within a day."""
    builds = [path for path in folder.iterdir() if (path / record).is_file() and path != keep]
    builds.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    unused = time.time() - _IN_USE_SECONDS
    for path in builds[KEPT - 1 :]:
        if path.stat().st_mtime < unused:
            shutil.rmtree(path, ignore_errors=True)


def _build(request: BuildRequest, flags: list[str], program: Path, log: Path) -> None:
    started = time.monotonic()
    folder = program.parent
    check_path(folder, hint="Set HARNESS_CACHE to another folder.")
    toolchain, shared = request.toolchain, request.shared
    title = f"engine {request.target.name} with {toolchain.version(shared)}"
    with (
        build_log(log, title) as printed,
        toolchain.tools(shared, folder) as tools,
        temporary_folder("aside", within=folder) as aside,
        fresh_folder(program, replace=True) as finished,
    ):
        source = _copied_sources(request, folder / "source")
        work = _emptied(folder / "work", aside)  # without results of CMake's checks for another compiler
        made = _compile(request, tools, flags, source, work, printed)
        record: dict[str, object] = {
            "format": FORMAT,
            "toolchain": toolchain.name,
            "compiled_for": toolchain.compiles_for(shared),
            "extra_flags": shlex.join(flags),
            "ablation": request.ablation,
            "sha256": file_digest(made),
            "seconds": round(time.monotonic() - started, 2),
            "flags": compiler_flags(work / "compile_commands.json", source / "engine"),
            "sources": request.hashes,
        } | tools.record()
        shutil.copy2(made, finished / _NAME)
        write_manifest(finished / _RECORD, record)
        shutil.rmtree(work, ignore_errors=True)


def _copied_sources(request: BuildRequest, folder: Path) -> Path:
    """Makes `folder` a copy, which nobody edits during the compilation. What is the same already stays: Zig
    compiles a file again if its time is another."""
    wanted = {folder / name: content for name, content in request.sources.items()}
    for path in sorted(folder.rglob("*"), reverse=True):  # a folder after what is in it
        if path.is_dir() and not path.is_symlink():
            with contextlib.suppress(OSError):  # it is not empty
                path.rmdir()
        elif path not in wanted:
            path.unlink()
    for path, content in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_bytes() != content:
            path.write_bytes(content)
    return folder


def _emptied(folder: Path, aside: Path) -> Path:
    """Creates an empty folder. An old one with its name moves to `aside`: compilers that were killed together
    with their harness may still write there for a moment."""
    with contextlib.suppress(FileNotFoundError):
        folder.rename(aside / folder.name)
    folder.mkdir()
    return folder


def _compile(
    request: BuildRequest, tools: Tools, flags: list[str], source: Path, work: Path, log: BuildLog
) -> Path:
    """Runs CMake and Ninja in `work`. Returns the program."""
    target = request.target
    definitions = {
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_MAKE_PROGRAM": tools.ninja,
        "CMAKE_TOOLCHAIN_FILE": str(source / "toolchains" / request.toolchain.files[0].name),
        "MPE_EXTRA_FLAGS": ";".join(flags),
        "MPE_ABLATION": "ON" if request.ablation else "OFF",
        "MPE_BUILT_ONCE": "ON",
    } | request.toolchain.definitions(request.shared)
    configure = [tools.cmake, "-S", str(source / "engine"), "-B", str(work), "-G", "Ninja"]
    configure += [f"-D{name}={value}" for name, value in definitions.items()]
    log.at("configuring" if tools.slow else "configuring (a new glibc version takes a minute)")
    _run(tools, configure, log, target, log.line)
    # Checked before a minute of compiling; engine.py checks it again for each target that shares the program.
    check_instruction_sets(compiler_flags(work / "compile_commands.json", source / "engine"), target)
    any_program = f"any program of {request.toolchain.version(request.shared)}"
    for smallest in work.glob("CMakeFiles/*/CMakeDetermineCompilerABI_CXX.bin"):  # of CMake's own check
        check_fits(read_needs(smallest), target, any_program)
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
    """Runs a step and keeps its output in the log. Raises BuildError."""
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
