"""Runs programs in containers, and removes containers of dead harness processes."""

from __future__ import annotations

import codecs
import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import console
from harness.images import docker_engine
from harness.images.docker_engine import DockerError, short
from harness.images.image import PLATFORM, PROXIES, Image
from harness.images.process_identity import is_dead, own_identity

if TYPE_CHECKING:
    from docker import DockerClient

OWNER_LABEL = "harness.owner"  # its value names the process that owns the container
SILENCE_SECONDS = 7 * 24 * 3600  # for clients: an emulated linker prints nothing for a long time
STOP_SECONDS = 60  # for an interrupted program to save its progress


def run_in_container(
    client: DockerClient,
    image: Image,
    command: Sequence[str],
    *,
    folder: Path,
    at: str,
    working_directory: str,
    environment: Mapping[str, str],
    on_line: Callable[[str], None],
    network: bool = False,
) -> int:
    """Runs the command as the calling user, `folder` mounted at `at`. Returns its exit status.

    Passes on each line of output at once. The container is always removed at the end; after an interruption,
    the program is first asked to stop. Raises DockerError.
    """
    from docker.types import Mount

    proxies = {name: os.environ[name] for name in PROXIES if name in os.environ}
    with docker_engine.answering(f"running {command[0]} in {image.tag}"):
        container = client.containers.create(
            image.id,
            list(command[1:]),
            entrypoint=[command[0]],
            name=docker_engine.container_name("build", image.target.name),
            user=f"{os.getuid()}:{os.getgid()}",
            working_dir=working_directory,
            environment={**(proxies if network else {}), **environment},
            mounts=[Mount(at, str(folder), type="bind")],
            labels={OWNER_LABEL: own_identity()},
            platform=PLATFORM,
            network_disabled=not network,
            init=True,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
        )
        try:
            container.start()
            for line in _lines(container.logs(stream=True, follow=True)):
                on_line(line)
            return int(container.wait()["StatusCode"])
        except KeyboardInterrupt:
            console.log(f"stopping {command[0]}")
            with contextlib.suppress(DockerError), docker_engine.answering("stopping a container"):
                container.stop(timeout=STOP_SECONDS)
            raise
        finally:
            container.remove(force=True)


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Decodes chunks of bytes to lines of text, each with its line end."""
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    rest = ""
    for chunk in chunks:
        *lines, rest = (rest + decode(chunk)).split("\n")
        yield from (f"{line}\n" for line in lines)
    if rest:
        yield rest


def remove_stale(client: DockerClient) -> int:
    """Removes containers of dead harness processes, for example after SIGKILL; returns their number."""
    removed = 0
    for container in client.containers.list(all=True, filters={"label": OWNER_LABEL}, ignore_removed=True):
        if is_dead(container.labels.get(OWNER_LABEL, "")):
            console.log(f"removing {container.name}, left over from a harness that died")
            remove(container)
            removed += 1
    return removed


def remove(container: Any) -> None:
    """Removes a container; a failure is a warning."""
    from docker.errors import APIError, DockerException, NotFound
    from requests.exceptions import RequestException

    try:
        container.remove(force=True, v=True)
    except NotFound:
        return
    except APIError as error:
        if error.status_code != 409:  # another process is removing it
            console.warn(f"could not remove the container {container.name}: {short(error)}")
    except (DockerException, RequestException) as error:
        console.warn(f"could not remove the container {container.name}: {short(error)}")
