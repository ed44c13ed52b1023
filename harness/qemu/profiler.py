"""Runs programs under QEMU with a plugin that profiles their blocks of instructions and cache misses.

Debian's emulator for binfmt_misc is static and does not support plugins. So the host's dynamic `qemu-aarch64`
is copied with its libraries and loader to a folder that emulated boards mount read-only. It is started by its
own loader and does not depend on the board's system.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from harness import console
from harness.errors import HarnessError
from harness.qemu.plugin import compile_plugin, has_plugin_option
from harness.resources import cache_directory, resource
from harness.temporary import fresh_folder

if TYPE_CHECKING:
    from harness.config.targets import Target

MOUNT_POINT = Path("/opt/qemu")
PLUGIN = "block_profile"

_LIBRARY = re.compile(r"^\s*(?:(?P<name>\S+) => )?(?P<path>/\S+) \(0x", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class BlockProfiler:
    """A folder with the emulator and its plugin."""

    folder: Path

    def command(
        self,
        target: Target,
        argv: Sequence[str],
        environment: Mapping[str, str],
        output: str,
        *,
        folder: Path = MOUNT_POINT,
        root: Path = Path("/"),
    ) -> list[str]:
        """The command line that runs `argv` and writes its profile to `output`.

        `folder`: where the profiler's folder is on the board; `root`: where the board's system is.
        """
        options = [f"out={_escaped(output)}"]
        if target.board is not None:
            options += [f"cache={cache.kib}/{cache.ways}" for cache in target.board.caches]
        plugin = _escaped(str(folder / f"{PLUGIN}.so"))
        return [
            *(str(folder / "loader"), "--library-path", str(folder / "lib"), str(folder / "qemu-aarch64")),
            *("-cpu", str(target.qemu_cpu), "-L", str(root)),
            *("-plugin", ",".join([plugin, *options]), "-d", "plugin"),
            # Only for the program: QEMU's own loader must not see LD_LIBRARY_PATH.
            *(word for name, value in environment.items() for word in ("-E", f"{name}={value}")),
            *argv,
        ]


def profiling_failed(board: str, status: int, said: str) -> HarnessError:
    """The error for a program that ended with another status than 0. `said`: its standard error."""
    return HarnessError(f"{board}: profiling failed with status {status}: {_end(said)}")


def without_marks(board: str, said: str) -> HarnessError:
    """The error for a program that ended without a profile."""
    return HarnessError(
        f"{board}: no profile was written: {_end(said) or 'the program made no marks'}",
        hint="Only programs that make marks can be profiled, such as `mpe bench --mark`.",
    )


def _end(said: str) -> str:
    return said.strip()[-500:]


def _escaped(path: str) -> str:
    """A path in QEMU's options, which commas separate."""
    return path.replace(",", ",,")


def profiling_missing() -> list[str]:
    """The missing requirements for profiling emulated programs, one line each."""
    emulator = shutil.which("qemu-aarch64")
    if emulator is None:
        return ["cannot profile: qemu-aarch64 not found: apt-get install qemu-user"]
    if not _takes_plugins(Path(emulator)):
        reason = f"cannot profile: {emulator} does not support plugins: Debian 12's qemu-user does"
        return [f"{reason}, Debian 13's does not; put a dynamically linked QEMU 7.2 or newer first in PATH"]
    return []


def prepare_profiler() -> BlockProfiler | None:
    """The profiler, compiled if necessary; None if `profiling_missing` names a reason."""
    if profiling_missing():
        return None
    emulator = Path(str(shutil.which("qemu-aarch64"))).resolve()
    source = resource("device_images", "qemu_plugin", f"{PLUGIN}.c")
    libraries = _libraries(emulator)
    inputs = [emulator, source, *libraries.values()]
    folder = cache_directory() / "qemu" / _key(inputs)
    if not folder.is_dir():
        with console.progress("preparing QEMU's profiler", None), fresh_folder(folder) as made:
            _gather(made, emulator, libraries, source)
    return BlockProfiler(folder=folder)


def _key(files: Sequence[Path]) -> str:
    """Changes when one of the files is replaced."""
    digest = hashlib.sha256(b"profiler 1")
    for file in files:
        status = file.stat()
        digest.update(f"{file}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:16]


@cache
def _takes_plugins(emulator: Path) -> bool:
    """Whether the emulator was built with plugins and is not static."""
    return has_plugin_option(emulator) and bool(_libraries(emulator))


@cache
def _libraries(program: Path) -> dict[str, Path]:
    """The libraries of a program by name, and its loader as `loader`. Empty for a static program."""
    result = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        return {}
    found = {match["name"] or "loader": Path(match["path"]) for match in _LIBRARY.finditer(result.stdout)}
    return found if "loader" in found else {}


def _gather(folder: Path, emulator: Path, libraries: dict[str, Path], source: Path) -> None:
    (folder / "lib").mkdir()
    shutil.copy(emulator, folder / "qemu-aarch64")
    for name, path in libraries.items():
        shutil.copy(path, folder / "loader" if name == "loader" else folder / "lib" / name)
    compile_plugin(source, folder / f"{PLUGIN}.so", emulator)
    for path in (folder, *folder.rglob("*")):  # a private umask must not hide it from the board's user
        path.chmod(path.stat().st_mode | (0o755 if path.is_dir() else 0o444))
