"""What emulated boards need of this machine, and what of it is missing."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.config.targets import all_targets, host_architecture
from harness.images import docker_engine
from harness.images.docker_engine import DockerError

if TYPE_CHECKING:
    from docker import DockerClient

    from harness.config.targets import Target

BINFMT = Path("/proc/sys/fs/binfmt_misc")

ARM64_CURE = (
    "`apt-get install qemu-user-static binfmt-support`; where "
    f"{BINFMT} is empty also `mount -t binfmt_misc binfmt_misc {BINFMT}` and "
    "`update-binfmts --enable qemu-aarch64`"
)

# The first bytes of every arm64 program: 64 bits, little-endian, machine 183.
_ARM64_ELF = bytes.fromhex("7f454c46020101") + bytes(9) + bytes.fromhex("0200b700")


def emulation_missing(target: Target | None = None) -> list[str]:
    """What must be installed before `open_board` works for an emulated target (None: for all of them).

    A line each, with the cure; empty: nothing. What only instruction counting needs is in
    `profiling_missing`. Takes less than a second, or a registry's time-out where mmdebstrap is missing.

    The cures, in order: the Docker Engine (packages docker.io and iptables, and a running dockerd);
    binfmt_misc mounted and qemu-aarch64 registered there (packages qemu-user-static and binfmt-support);
    and, where the image is not built yet and no registry answers, mmdebstrap and debian-archive-keyring.
    """
    missing = []
    client = None
    try:
        client = docker_engine.connect(timeout=docker_engine.ANSWER_SECONDS)
    except DockerError as error:
        missing.append(f"{error.message}: {error.cure}")
    try:
        if not arm64_programs_run():
            missing.append(f"arm64 programs do not run here: {ARM64_CURE}")
        if client is not None and not _base_to_be_had(client, [target] if target else all_targets()):
            missing.append(
                "no registry answers for the base image, and nothing is here to make one: "
                "`apt-get install mmdebstrap debian-archive-keyring`"
            )
    finally:
        if client is not None:
            client.close()
    return missing


def arm64_programs_run(registry: Path = BINFMT) -> bool:
    """Whether the kernel starts arm64 programs, in containers too."""
    return host_architecture() == "aarch64" or arm64_interpreter(registry) is not None


def arm64_interpreter(registry: Path = BINFMT) -> str | None:
    """The program by which the kernel starts arm64 programs, in containers too."""
    try:
        entries = [path.read_text() for path in registry.iterdir() if path.name not in ("register", "status")]
    except OSError:
        return None
    return next((found for entry in entries if (found := _arm64_interpreter_of(entry))), None)


def _arm64_interpreter_of(entry: str) -> str | None:
    """The interpreter of an entry of binfmt_misc, if it is for arm64 and found in any container."""
    lines = entry.splitlines()
    values = dict(line.split(" ", 1) for line in lines if " " in line)
    try:
        magic = bytes.fromhex(values.get("magic", ""))
        mask = bytes.fromhex(values["mask"]) if "mask" in values else b"\xff" * len(magic)
    except ValueError:
        return None
    if lines[:1] != ["enabled"] or not magic or values.get("offset") != "0":
        return None
    if "F" not in values.get("flags:", ""):  # without it the interpreter is looked for inside the container
        return None
    matches = len(magic) <= len(_ARM64_ELF) and all(
        byte & bits == wanted & bits for byte, bits, wanted in zip(_ARM64_ELF, mask, magic, strict=False)
    )
    return values.get("interpreter") if matches else None


def _base_to_be_had(client: DockerClient, targets: Sequence[Target]) -> bool:
    from harness.images.image import image_present, registry_has
    from harness.images.recipe import read_recipe

    return shutil.which("mmdebstrap") is not None or all(
        image_present(client, target) or any(registry_has(client, base) for base in read_recipe(target).bases)
        for target in targets
        if target.image
    )
