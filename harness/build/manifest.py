"""The record of a built engine: its sources, compiler, flags and requirements."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from harness.build.toolchain import Toolchain
from harness.errors import BuildError
from harness.files import write_atomically
from harness.resources import resource

FORMAT = 2  # incremented when the meaning of a manifest or the product of a build changes
_NOT_BUILT = {"tests", "bench"}  # folders of engine/ that do not belong to the program


def read_sources(toolchain: Toolchain) -> dict[str, bytes]:
    """Path -> content of every source file of the program. Raises BuildError if there are none."""
    root = resource("engine")
    files = sorted(
        path
        for path in root.rglob("*")
        if path.is_file() and path.relative_to(root).parts[0] not in _NOT_BUILT and path.name[0] != "."
    )
    if not files:
        raise BuildError(f"{root}: the engine's sources are missing", hint="Install harness again.")
    sources = {f"engine/{path.relative_to(root).as_posix()}": path.read_bytes() for path in files}
    return sources | {f"toolchains/{file.name}": file.read_bytes() for file in toolchain.files}


def compiler_flags(compile_commands: Path, source: Path) -> dict[str, str]:
    """Source file -> its compiler flags, without the paths of this machine."""
    flags = {}
    for entry in json.loads(compile_commands.read_text(encoding="utf-8")):
        if not Path(entry["file"]).is_relative_to(source):  # the precompiled headers
            continue
        words = shlex.split(entry["command"])[1:]
        kept, skip = [], 0
        for word, after in zip(words, [*words[1:], ""], strict=True):
            if skip:
                skip -= 1
            elif word in ("-o", "-c", "-MF", "-MT", "-isystem"):
                skip = 1
            elif word == "-Xclang" and after in ("-include-pch", "-include"):
                skip = 3  # -Xclang -include-pch -Xclang PATH
            elif not word.startswith(("-I", "-MD", "-Winvalid-pch")):
                kept.append(word)
        flags[Path(entry["file"]).relative_to(source).as_posix()] = shlex.join(kept)
    return dict(sorted(flags.items()))


def read_manifest(path: Path) -> dict[str, object] | None:
    """A manifest; None if it is missing, damaged or of another format."""
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return manifest if isinstance(manifest, dict) and manifest.get("format") == FORMAT else None


def write_manifest(path: Path, manifest: dict[str, object]) -> None:
    """Writes it whole or not at all."""
    write_atomically(path, (json.dumps(manifest, indent=2) + "\n").encode())
