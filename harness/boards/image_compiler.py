"""The compiler inside a target's arm64 image: a native build under QEMU, to compare with cross-compiling.

A container of the build image sees the build's folder at the path that it has here, so that CMake is told the
same as on this machine. It runs as the calling user, without network, and is removed whatever comes of it.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.boards import docker_engine
from harness.boards.emulated import OWNER_LABEL, remove_stale
from harness.boards.images import PLATFORM, Image, build_image
from harness.boards.process_identity import own_identity
from harness.build.toolchain import Place, Toolchain, Tools, load_toolchain

if TYPE_CHECKING:
    from docker import DockerClient

    from harness.configuration.targets import Target

COMPILER = "/usr/bin/g++"


class ImageCompiler:
    """GCC of the image in which the engine is built for a target."""

    name = "gcc"
    place: Place = "image"

    def __init__(self, image: Image) -> None:
        self._image = image

    @property
    def files(self) -> tuple[Path, ...]:
        return load_toolchain(self.name).files

    def version(self, target: Target) -> str:  # noqa: ARG002 - the image is of one target
        return f"g++ of {self._image.tag}"

    def definitions(self, target: Target) -> dict[str, str]:
        values = {"CXX_EXECUTABLE": COMPILER, "TARGET_ARCHITECTURE": target.architecture}
        return values | ({"TARGET_CPU": target.cpu} if target.cpu else {})

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
    """Tools of an image, a container for each run of one."""

    cmake, ninja = "cmake", "ninja"
    slow = True

    def __init__(self, client: DockerClient, image: Image, target: Target, folder: Path) -> None:
        self._client, self._image, self._target, self._folder = client, image, target, str(folder)

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
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        rest = ""
        with docker_engine.answering(f"running {command[0]} in {self._image.tag}"):
            container = self._create(command)
            try:
                container.start()
                for chunk in container.logs(stream=True, follow=True):
                    *lines, rest = (rest + decode(chunk)).split("\n")
                    for line in lines:
                        on_line(line + "\n")
                if rest:
                    on_line(rest)
                return int(container.wait()["StatusCode"])
            finally:
                container.remove(force=True)

    def _create(self, command: Sequence[str]) -> Any:
        from docker.types import Mount

        core = {"QEMU_CPU": self._target.qemu_cpu} if self._target.qemu_cpu else {}
        return self._client.containers.create(
            self._image.id,
            list(command[1:]),
            entrypoint=[command[0]],
            name=f"harness-build-{self._target.name}-{secrets.token_hex(4)}",
            user=f"{os.getuid()}:{os.getgid()}",
            working_dir=self._folder,
            environment={"HOME": "/tmp", **core},
            mounts=[Mount(self._folder, self._folder, type="bind")],
            labels={OWNER_LABEL: own_identity()},
            platform=PLATFORM,
            network_disabled=True,
            init=True,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
        )


def image_compiler(target: Target) -> Toolchain:
    """The compiler of the target's build image, which is made where it is not there yet.

    Raises BuildError, DockerError, and ConfigurationError for a target that has no image.
    """
    return ImageCompiler(build_image(target, building=True).image)
