"""Runs a target's programs on this machine: directly, or under QEMU with the target's core."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from harness.config.targets import Target, host_architecture

# Debian's and Ubuntu's package libc6-arm64-cross installs the loader and glibc here.
CROSS_ROOT = Path("/usr/aarch64-linux-gnu")
LOADER = Path("lib/ld-linux-aarch64.so.1")


@dataclass(frozen=True, kw_only=True)
class Emulator:
    """The prefix of a command line, and its description in a manifest."""

    prefix: tuple[str, ...]
    description: str


def find_emulator(target: Target) -> Emulator | None:
    """How to run `target`'s programs here, or None; `emulator_missing` then says what to install."""
    if target.architecture == host_architecture():
        return Emulator(prefix=(), description="run directly")
    if emulator_missing(target):
        return None
    qemu, root = str(_qemu()), arm64_root()
    core = target.qemu_cpu or "max"
    prefix = (qemu, "-cpu", core) + (("-L", str(root)) if root and root != Path("/") else ())
    return Emulator(prefix=prefix, description=f"{Path(qemu).name} -cpu {core}")


def emulator_missing(target: Target) -> list[str]:
    """What to install so that `target`'s programs can run here; empty if nothing is missing."""
    if target.architecture == host_architecture():
        return []
    if target.architecture != "aarch64":
        return [f"a machine of architecture {target.architecture}"]
    missing = []
    if _qemu() is None:
        missing.append("qemu-user")
    if arm64_root() is None:
        missing.append("libc6-arm64-cross")
    return missing


def _qemu() -> str | None:
    return shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")


def arm64_root() -> Path | None:
    """The folder that holds an arm64 loader and glibc; None if there is none."""
    chosen = os.environ.get("QEMU_LD_PREFIX")
    candidates = [*([Path(chosen)] if chosen else []), CROSS_ROOT, Path("/")]
    return next((root for root in candidates if (root / LOADER).exists()), None)
