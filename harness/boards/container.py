"""A program that runs to its end in a container of an arm64 image, for hours if it takes them."""

from __future__ import annotations

import codecs
import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import console
from harness.boards import docker_engine
from harness.boards.docker_engine import DockerError
from harness.boards.emulated import OWNER_LABEL, remove_stale
from harness.boards.images import PLATFORM, PROXIES
from harness.boards.process_identity import own_identity

SILENCE_SECONDS = 7 * 24 * 3600  # a linker under emulation says nothing for very long
STOP_SECONDS = 60  # for a program to write down how far it has come


def run_in_container(
    image: str,
    command: Sequence[str],
    *,
    folder: Path,
    at: str,
    working_directory: str,
    environment: Mapping[str, str],
    network: bool,
    on_line: Callable[[str], None],
) -> int:
    """Runs the command as the calling user, `folder` mounted at `at`. Returns its exit status.

    The container is removed whatever comes; interrupted, the program is asked to stop first. Raises
    DockerError.
    """
    from docker.types import Mount

    client = docker_engine.connect(timeout=SILENCE_SECONDS)
    container: Any = None
    try:
        with docker_engine.answering("starting a container"):
            remove_stale(client)
            container = client.containers.create(
                image,
                list(command[1:]),
                entrypoint=[command[0]],
                user=f"{os.getuid()}:{os.getgid()}",
                working_dir=working_directory,
                environment={**(_proxies() if network else {}), **environment},
                mounts=[Mount(at, str(folder.absolute()), type="bind")],
                labels={OWNER_LABEL: own_identity()},
                platform=PLATFORM,
                network_disabled=not network,
                init=True,
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
            )
            container.start()
        with docker_engine.answering(f"running {command[0]} in a container"):
            _follow(container, on_line)
            return int(container.wait()["StatusCode"])
    except BaseException:
        if container is not None:
            console.log(f"stopping {command[0]}")
            with contextlib.suppress(DockerError), docker_engine.answering("stopping a container"):
                container.stop(timeout=STOP_SECONDS)
        raise
    finally:
        if container is not None:
            with contextlib.suppress(DockerError), docker_engine.answering("removing a container"):
                container.remove(force=True, v=True)
        client.close()


def _follow(container: Any, on_line: Callable[[str], None]) -> None:
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    rest = ""
    for chunk in container.logs(stream=True, follow=True):
        *lines, rest = (rest + decode(chunk)).split("\n")
        for line in lines:
            on_line(line)
    if rest:
        on_line(rest)


def _proxies() -> dict[str, str]:
    return {name: os.environ[name] for name in PROXIES if name in os.environ}
