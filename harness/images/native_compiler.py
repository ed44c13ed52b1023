"""The compiler inside a target's arm64 image: a native build under QEMU, to compare with cross-compiling.

A container of the build image has the build's folder mounted at the same path as on this machine, so that
CMake gets the same arguments. It runs as the calling user, without network, and is always removed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.build.toolchain import Place, Toolchain, Tools, load_toolchain
from harness.images import docker_engine
from harness.images.container import remove_stale, run_in_container
from harness.images.image import Image, build_image

if TYPE_CHECKING:
    from docker import DockerClient

    from harness.config.targets import Target

COMPILER = "/usr/bin/g++"


class ImageCompiler:
    """GCC in the build image of a target."""

    name = "gcc"
    place: Place = "image"

    def __init__(self, image: Image) -> None:
        self._image = image

    @property
    def files(self) -> tuple[Path, ...]:
        return load_toolchain(self.name).files

    def version(self, target: Target) -> str:  # noqa: ARG002 - the image is of one target
        return f"g++ of {self._image.tag}"

    def compiles_for(self, target: Target) -> dict[str, str]:
        return {"TARGET_ARCHITECTURE": target.architecture}

    def definitions(self, target: Target) -> dict[str, str]:
        return {"CXX_EXECUTABLE": COMPILER} | self.compiles_for(target)

    def identity(self, target: Target) -> dict[str, str]:  # noqa: ARG002
        return {"image": self._image.id}

    @contextlib.contextmanager
    def tools(self, target: Target, folder: Path) -> Iterator[Tools]:
        """Raises DockerError."""
        client = docker_engine.connect()
        try:
            with docker_engine.answering("removing old containers"):
                remove_stale(client)
            yield ImageTools(client, self._image, target, folder.absolute())
        finally:
            client.close()


class ImageTools:
    """Tools of an image; each run gets its own container."""

    cmake, ninja = "cmake", "ninja"
    slow = True

    def __init__(self, client: DockerClient, image: Image, target: Target, folder: Path) -> None:
        self._client, self._image, self._target, self._folder = client, image, target, folder

    def record(self) -> dict[str, str]:
        image = self._image
        return {
            "compiler": self._first_line(COMPILER),
            "cmake": self._first_line(self.cmake).removeprefix("cmake version "),
            "ninja": self._first_line(self.ninja),
            "built_in": f"{image.tag} ({image.described()})",
        }

    def _first_line(self, program: str) -> str:
        lines: list[str] = []
        self.run([program, "--version"], lines.append)
        return lines[0].strip() if lines else ""

    def run(self, command: Sequence[str], on_line: Callable[[str], None]) -> int:
        core = {"QEMU_CPU": self._target.qemu_cpu} if self._target.qemu_cpu else {}
        return run_in_container(
            self._client,
            self._image,
            command,
            folder=self._folder,
            at=str(self._folder),
            working_directory=str(self._folder),
            environment={"HOME": "/tmp", **core},
            on_line=on_line,
        )


def image_compiler(target: Target) -> Toolchain:
    """The compiler of the target's build image, which is built if missing.

    Raises BuildError, DockerError, and ConfigurationError for a target that has no image.
    """
    return ImageCompiler(build_image(target, building=True).image)
