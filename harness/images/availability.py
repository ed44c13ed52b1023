"""The requirements of emulated boards on this machine."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.config.targets import all_targets
from harness.images import docker_engine
from harness.images.bootstrap import PACKAGES
from harness.images.docker_engine import DockerError
from harness.images.image import image_present, registry_has
from harness.images.recipe import read_recipe
from harness.qemu.binfmt import ARM64_HINT, arm64_programs_run

if TYPE_CHECKING:
    from docker import DockerClient

    from harness.config.targets import Target


def emulation_missing(target: Target | None = None) -> list[str]:
    """What must be installed before `open_board` works for an emulated target (None: for all of them).

    One line each, with a hint; empty if nothing is missing. The requirements of instruction counting are in
    `profiling_missing`. Takes less than a second, or a registry's timeout if mmdebstrap is missing.

    The hints, in order: the Docker Engine (packages docker.io and iptables, and a running dockerd);
    binfmt_misc mounted and qemu-aarch64 registered there (packages qemu-user-static and binfmt-support);
    and, where the image is not built yet and no registry answers, mmdebstrap and debian-archive-keyring.
    """
    missing = []
    client = None
    try:
        client = docker_engine.connect(timeout=docker_engine.ANSWER_SECONDS)
    except DockerError as error:
        missing.append(f"{error.message}: {error.hint.rstrip('.')}")
    try:
        if not arm64_programs_run():
            missing.append(f"this machine cannot run arm64 programs: {ARM64_HINT}")
        if client is not None and not _base_available(client, [target] if target else all_targets()):
            missing.append(
                "no registry has the base image, and the tools to build one are missing: "
                f"`apt-get install {' '.join(PACKAGES)}`"
            )
    finally:
        if client is not None:
            client.close()
    return missing


def _base_available(client: DockerClient, targets: Sequence[Target]) -> bool:
    return shutil.which("mmdebstrap") is not None or all(
        image_present(client, target) or any(registry_has(client, base) for base in read_recipe(target).bases)
        for target in targets
        if target.image
    )
