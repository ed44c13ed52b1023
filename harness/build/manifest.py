"""The record beside every built engine: from which sources, by what, with which flags, needing what."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from pathlib import Path

from harness.build.toolchain import Toolchain
from harness.config.targets import Target
from harness.errors import BuildError
from harness.files import write_atomically
from harness.resources import resource

FORMAT = 2  # raised when the meaning of a manifest, or what is built, changes
_NOT_BUILT = {"tests", "bench"}  # folders of engine/ that are no part of the program


def read_sources(toolchain: Toolchain) -> dict[str, bytes]:
    """Path -> content of every file that the program is built from. Raises BuildError if there are none."""
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


def hash_sources(sources: dict[str, bytes]) -> dict[str, str]:
    """Path -> SHA-256 in hex."""
    return {path: hashlib.sha256(content).hexdigest() for path, content in sources.items()}


def program_key(target: Target, toolchain: Toolchain, flags: str, hashes: dict[str, str]) -> str:
    """Names a program by all that determines it; two targets that are compiled for alike share it."""
    parts = {
        "format": FORMAT,
        "place": toolchain.place,
        "for": toolchain.compiles_for(target),
        "flags": flags,
        "sources": hashes,
    } | toolchain.identity(target)
    return _digest(parts)


def build_key(target: Target, toolchain: Toolchain, flags: str, hashes: dict[str, str]) -> str:
    """Names a target's build: equal exactly when a second one would give the same program and pass the same
    gates."""
    parts = {
        "program": program_key(target, toolchain, flags, hashes),
        "architecture": target.architecture,
        "cpu": target.cpu,
        "qemu_cpu": target.qemu_cpu,
        "glibc": target.glibc,
        "libstdcxx": target.libstdcxx,
        "cxxabi": target.cxxabi,
        "libgcc": target.libgcc,
        "features": target.features,
    }
    return _digest(parts)


def _digest(parts: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def compiler_flags(compile_commands: Path, source: Path) -> dict[str, str]:
    """Source file -> its compiler flags, without the paths of this machine."""
    flags = {}
    for entry in json.loads(compile_commands.read_text(encoding="utf-8")):
        words = shlex.split(entry["command"])[1:]
        kept, skip = [], False
        for word in words:
            if skip:
                skip = False
            elif word in ("-o", "-c", "-MF", "-MT", "-isystem"):
                skip = True
            elif not word.startswith(("-I", "-MD")):
                kept.append(word)
        flags[Path(entry["file"]).relative_to(source).as_posix()] = shlex.join(kept)
    return dict(sorted(flags.items()))


def read_manifest(path: Path) -> dict[str, object] | None:
    """A manifest, or None where there is none that can be used."""
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return manifest if isinstance(manifest, dict) and manifest.get("format") == FORMAT else None


def write_manifest(path: Path, manifest: dict[str, object]) -> None:
    """Writes it whole or not at all."""
    write_atomically(path, (json.dumps(manifest, indent=2) + "\n").encode())
