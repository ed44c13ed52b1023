"""Compiles plugins for QEMU's user emulation."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

from harness.errors import BuildError
from harness.resources import cache_directory

_VERSION = re.compile(r"version (\d+)\.(\d+)")


@cache
def has_plugin_option(emulator: Path) -> bool:
    """Whether the emulator was built with plugins."""
    said = subprocess.run([str(emulator), "--help"], capture_output=True, text=True, check=False).stdout
    return bool(re.search(r"^-plugin\b", said, re.MULTILINE))


def interface(emulator: Path) -> list[str]:
    """Compiler options for the emulator's version of the plugin interface."""
    result = subprocess.run([str(emulator), "--version"], capture_output=True, text=True, check=False)
    found = _VERSION.search(result.stdout)
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    return [
        f"-DPLUGIN_API={2 if version >= (9, 0) else 1}",
        f"-DINSTRUCTION_COPIED={int(version >= (9, 1))}",
    ]


def compile_plugin(source: Path, output: Path, emulator: Path) -> None:
    """Writes to `output`, a path in the cache. Raises BuildError with the compiler's words."""
    # Zig's linker replaces every % in the output's name; names in the cache have no %.
    cache = cache_directory()
    # Undefined symbols are QEMU's, and defined when it loads the plugin.
    command = [
        *(sys.executable, "-m", "ziglang", "cc", "-target", f"{platform.machine()}-linux-gnu.2.27"),
        *("-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-sanitize=all"),
        *("-Wl,--allow-shlib-undefined", "-Wl,-z,lazy", *interface(emulator)),
        *("-o", str(output.relative_to(cache)), str(source)),
    ]
    result = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=cache,
        env=os.environ | dict.fromkeys(("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"), "zig"),
    )
    if result.returncode != 0:
        raise BuildError(f"QEMU's plugin does not compile: {result.stderr.strip()[-500:]}")
