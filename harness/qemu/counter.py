"""Counts a program's instructions on this machine under QEMU, if the processor's counter is not available, as
in virtual machines and most containers."""

from __future__ import annotations

import hashlib
import platform
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import HarnessError
from harness.qemu.plugin import compile_plugin, has_plugin_option
from harness.resources import cache_directory, resource
from harness.temporary import temporary_folder

PLUGIN = "instruction_count"
_LONGEST_COUNT = 32  # bytes


@dataclass(frozen=True, kw_only=True)
class InstructionCounter:
    """The emulator of this machine's architecture, and the plugin."""

    emulator: Path
    plugin: Path

    def command(self, argv: Sequence[str], environment: Mapping[str, str], output: Path) -> list[str]:
        """The command line that runs `argv`, which makes the marks of `mpe bench --mark`, and writes the
        number of instructions between them to `output`."""
        return [
            *(str(self.emulator), "-cpu", "max", "-plugin", f"{self.plugin},out={output}", "-d", "plugin"),
            *(word for name, value in environment.items() for word in ("-E", f"{name}={value}")),
            *argv,
        ]


def counting_missing() -> str:
    """The missing requirements of instruction counting; empty if there are none."""
    emulator = f"qemu-{platform.machine()}"
    found = shutil.which(emulator)
    if found is None:
        return f"{emulator} not found: apt-get install qemu-user"
    if not has_plugin_option(Path(found)):
        return f"{found} does not support plugins: Debian 12's qemu-user does"
    return ""


def prepare_counter() -> InstructionCounter:
    """Compiles the plugin if necessary. Raises HarnessError if a requirement is missing."""
    if missing := counting_missing():
        raise HarnessError(f"instructions are not counted: {missing}")
    emulator = Path(str(shutil.which(f"qemu-{platform.machine()}"))).resolve()
    source = resource("device_images", "qemu_plugin", f"{PLUGIN}.c")
    status = emulator.stat()
    key = hashlib.sha256(f"{emulator} {status.st_size} {status.st_mtime_ns} ".encode() + source.read_bytes())
    plugin = cache_directory() / "qemu" / f"{PLUGIN}-{key.hexdigest()[:16]}.so"
    if not plugin.is_file():
        plugin.parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder("qemu", within=plugin.parent) as folder:
            made = folder / plugin.name
            compile_plugin(source, made, emulator)
            made.replace(plugin)
    return InstructionCounter(emulator=emulator, plugin=plugin)


def read_count(path: Path) -> int:
    """Raises HarnessError if the program made no marks, or the file contains no count."""
    try:
        with path.open("rb") as stream:
            text = stream.read(_LONGEST_COUNT + 1)
    except OSError:
        text = b""
    if not text.strip():
        raise HarnessError("instructions are not counted: the program made no marks")
    if not re.fullmatch(rb"[1-9][0-9]{0,17}\s*", text):
        raise HarnessError(
            "instructions are not counted: implausible result: the plugin did not write a count"
        )
    return int(text)
