"""Counts the instructions of an inference with a QEMU plugin.

Debian's emulator for binfmt_misc is static and takes no plugins, so the host's dynamic `qemu-aarch64`, with
the libraries and the loader it needs, is gathered in a folder that emulated boards see read-only. There it is
started by its own loader, and nothing of the board's system is in its way.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness.errors import BuildError, HarnessError
from harness.resources import cache_directory, resource

MOUNT_POINT = "/opt/qemu"

_COUNT = re.compile(r"^instructions (\d+)$", re.MULTILINE)
_LIBRARY = re.compile(r"^\s*(?:(?P<name>\S+) => )?(?P<path>/\S+) \(0x", re.MULTILINE)
_VERSION = re.compile(r"version (\d+)\.")


@dataclass(frozen=True, kw_only=True)
class InstructionCounter:
    """The emulator with its plugin, gathered in a folder."""

    folder: Path

    def command(self, cpu: str, argv: Sequence[str], environment: Mapping[str, str]) -> list[str]:
        """The command line, on a board that has the folder at MOUNT_POINT, that runs `argv` and counts."""
        return [
            *(f"{MOUNT_POINT}/loader", "--library-path", f"{MOUNT_POINT}/lib", f"{MOUNT_POINT}/qemu-aarch64"),
            *("-cpu", cpu, "-plugin", f"{MOUNT_POINT}/instruction_count.so", "-d", "plugin"),
            # The program's alone: QEMU's own loader is not to see an LD_LIBRARY_PATH.
            *(word for name, value in environment.items() for word in ("-E", f"{name}={value}")),
            *argv,
        ]


def counter_missing() -> list[str]:
    """What to install for instructions to be counted, a line each."""
    emulator = shutil.which("qemu-aarch64")
    if emulator is None:
        return ["instructions are not counted: there is no qemu-aarch64: apt-get install qemu-user"]
    if not _libraries(Path(emulator)):
        return [f"instructions are not counted: {emulator} takes no plugins: apt-get install qemu-user"]
    return []


def prepare_counter() -> InstructionCounter | None:
    """The counter, gathered and compiled where that is not done; None where `counter_missing` says why."""
    if counter_missing():
        return None
    emulator = Path(str(shutil.which("qemu-aarch64"))).resolve()
    source = resource("device_images", "qemu_plugin", "instruction_count.c")
    libraries = _libraries(emulator)
    inputs = [emulator, source, *libraries.values()]
    folder = cache_directory() / "qemu" / _key(inputs)
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".qemu-", dir=folder.parent) as name:
            made = Path(name) / "made"
            _gather(made, emulator, libraries, source)
            try:
                made.rename(folder)
            except OSError:
                if not folder.is_dir():  # another harness was first
                    raise
    return InstructionCounter(folder=folder)


def parse_count(stderr: str) -> int:
    """The count that the plugin wrote. Raises HarnessError where there is none."""
    found = _COUNT.findall(stderr)
    if not found:
        raise HarnessError(
            "no instructions were counted: the program made no marks",
            cure="Only `mpe bench --mark` can be counted.",
        )
    return int(found[-1])


def _key(files: Sequence[Path]) -> str:
    """Changes when one of the files is replaced."""
    digest = hashlib.sha256(b"counter 2")
    for file in files:
        status = file.stat()
        digest.update(f"{file}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:16]


@cache
def _libraries(program: Path) -> dict[str, Path]:
    """What the program loads, by the name it asks for; the loader is `loader`. Empty for a static one."""
    result = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        return {}
    found = {match["name"] or "loader": Path(match["path"]) for match in _LIBRARY.finditer(result.stdout)}
    return found if "loader" in found else {}


def _gather(folder: Path, emulator: Path, libraries: dict[str, Path], source: Path) -> None:
    (folder / "lib").mkdir(parents=True)
    shutil.copy(emulator, folder / "qemu-aarch64")
    for name, path in libraries.items():
        shutil.copy(path, folder / "loader" if name == "loader" else folder / "lib" / name)
    _compile(source, folder / "instruction_count.so", plugin_api=_plugin_api(emulator))
    for path in (folder, *folder.rglob("*")):  # a private umask must not hide it from the board's user
        path.chmod(path.stat().st_mode | (0o755 if path.is_dir() else 0o444))


def _plugin_api(emulator: Path) -> int:
    """The version of the plugin interface to declare; what is used of it is the same in all."""
    result = subprocess.run([str(emulator), "--version"], capture_output=True, text=True, check=False)
    found = _VERSION.search(result.stdout)
    return 2 if found and int(found[1]) >= 9 else 1


def _compile(source: Path, output: Path, *, plugin_api: int) -> None:
    command = [
        *(sys.executable, "-m", "ziglang", "cc", "-O2", "-fPIC", "-shared", "-nostdlib", "-ffreestanding"),
        *("-fvisibility=hidden", "-fno-sanitize=all", "-Wl,--allow-shlib-undefined", "-Wl,-z,lazy"),
        *(f"-DPLUGIN_API={plugin_api}", "-o", str(output), str(source)),
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise BuildError(
            f"the plugin that counts instructions does not compile: {result.stderr.strip()[-500:]}"
        )
