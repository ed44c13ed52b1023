"""Builds the arm64 image of a target with the Docker Engine's API.

An image is tagged only when it is complete, and labelled with a hash of what it was made of: a second call
finds it, a changed Dockerfile or pin makes a new one.
"""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness import console
from harness.boards import docker_engine
from harness.boards.bootstrap import base_tag, bootstrap
from harness.boards.docker_engine import short
from harness.boards.recipe import Recipe, dockerfile, read_recipe, sshd_config
from harness.build.lock import exclusive
from harness.errors import BuildError
from harness.resources import cache_directory

if TYPE_CHECKING:
    from typing import TextIO

    from docker import DockerClient

    from harness.configuration.targets import Target

INPUTS_LABEL = "harness.inputs"
BASE_LABEL = "harness.base"
PLATFORM = "linux/arm64"
_PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "no_proxy")


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image in the Docker Engine."""

    target: str
    tag: str
    id: str  # sha256:…
    base: str  # what it was built on: a pinned name, or "bootstrap SUITE"
    seconds: float
    cached: bool


def image_tag(recipe: Recipe, target: Target) -> str:
    return f"harness/{target.image}:{recipe.key()[:16]}"


def build_image(target: Target, *, fresh: bool = False) -> Image:
    """The target's image, built when it is not there; with `fresh` in any case, base included.

    Raises BuildError with the place of the log, DockerError where no engine answers.
    """
    started = time.monotonic()
    recipe = read_recipe(target)
    client = docker_engine.connect()
    try:
        lock = cache_directory() / "images" / f"{target.image}.lock"
        with exclusive(lock, f"another harness that builds the image {target.image}"):
            found = None if fresh else _find(client, recipe, target)
            if found is None:
                _build(client, recipe, target, fresh)
                found = _find(client, recipe, target)
                if found is None:
                    raise BuildError(
                        f"the Docker Engine lost the image of {target.name} right after its build"
                    )
                cached = False
            else:
                cached = True
            identity, base = found
    finally:
        client.close()
    return Image(
        target=target.name,
        tag=image_tag(recipe, target),
        id=identity,
        base=base,
        seconds=time.monotonic() - started,
        cached=cached,
    )


def image_present(client: DockerClient, target: Target) -> bool:
    """Whether the target's image is there and up to date."""
    return _find(client, read_recipe(target), target) is not None


def _find(client: DockerClient, recipe: Recipe, target: Target) -> tuple[str, str] | None:
    """Identity and base of the image that has the recipe's inputs."""
    from docker.errors import ImageNotFound

    with docker_engine.answering("looking for images"):
        try:
            image = client.images.get(image_tag(recipe, target))
        except ImageNotFound:
            return None
    labels = image.labels
    if labels.get(INPUTS_LABEL) != recipe.key() or image.attrs.get("Architecture") != "arm64":
        return None
    return str(image.id), labels.get(BASE_LABEL, "")


def _build(client: DockerClient, recipe: Recipe, target: Target, fresh: bool) -> None:
    path = log_path(target)
    with path.open("w", encoding="utf-8") as log, console.progress(f"image {target.image}", None):
        base, described = _base(client, recipe, fresh, log)
        _build_on(client, recipe, target, base, described, fresh, log)


def log_path(target: Target) -> Path:
    """Where the last build's whole output is kept."""
    return cache_directory() / "images" / f"{target.image}.log"


def _base(client: DockerClient, recipe: Recipe, fresh: bool, log: TextIO) -> tuple[str, str]:
    """The base to build on, and how to call it: from the registry, else bootstrapped."""
    from docker.errors import ImageNotFound

    described = f"bootstrap {recipe.bootstrap}"
    if not fresh:
        with contextlib.suppress(ImageNotFound):
            client.images.get(recipe.base)
            return recipe.base, recipe.base_name
        with contextlib.suppress(ImageNotFound):
            client.images.get(base_tag(recipe))
            return base_tag(recipe), described
    if _pull(client, recipe, log):
        return recipe.base, recipe.base_name
    console.log(f"no registry answers for {recipe.base_name}: making a base from Debian {recipe.bootstrap}")
    return bootstrap(client, recipe, log), described


def registry_answers(client: DockerClient, recipe: Recipe) -> bool:
    """Whether the Docker Engine reaches the base's registry and finds the pinned base there."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        client.api.inspect_distribution(recipe.base)  # type: ignore[no-untyped-call]
    except (DockerException, RequestException):
        return False
    return True


def _pull(client: DockerClient, recipe: Recipe, log: TextIO) -> bool:
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    asking = docker_engine.connect(timeout=docker_engine.ANSWER_SECONDS)
    try:
        if not registry_answers(asking, recipe):
            return False
    finally:
        asking.close()
    console.log(f"pulling {recipe.base_name}")
    failure = ""
    try:
        # Read to its end even after an error: a stream that is left open keeps its socket.
        for event in client.api.pull(recipe.base, platform=PLATFORM, stream=True, decode=True):
            log.write(f"{event.get('id', '')} {event.get('status', '')} {event.get('error', '')}\n")
            failure = failure or event.get("error", "")
    except (DockerException, RequestException) as error:
        failure = short(error)
    if failure:
        console.warn(f"pulling {recipe.base_name}: {failure}")
    return not failure


def _build_on(
    client: DockerClient,
    recipe: Recipe,
    target: Target,
    base: str,
    described: str,
    fresh: bool,
    log: TextIO,
) -> None:
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    console.log(f"building the image of {target.image} on {described}")
    arguments = {"BASE": base, "PACKAGES": " ".join(recipe.packages)}
    arguments |= {name: os.environ[name] for name in _PROXIES if name in os.environ}
    try:
        events = client.api.build(
            fileobj=_context(),
            custom_context=True,
            encoding="gzip",
            dockerfile="Dockerfile.arm64",
            tag=image_tag(recipe, target),
            buildargs=arguments,
            labels={INPUTS_LABEL: recipe.key(), BASE_LABEL: described},
            platform=PLATFORM,
            nocache=fresh,
            rm=True,
            forcerm=True,
            decode=True,
        )
        failure = ""
        for event in events:  # to its end even after an error: see _pull
            for text in (event.get("stream", ""), event.get("error", "")):
                log.write(text)
                if text.startswith("Step "):
                    console.log(f"  {text.strip()[:100]}")
            log.flush()
            failure = failure or event.get("error", "").strip()
    except (DockerException, RequestException) as error:
        raise BuildError(
            f"the image of {target.name} was not built: {short(error)}",
            cure=f"The whole log is in {log.name}.",
        ) from None
    if failure:
        raise BuildError(
            f"the image of {target.name} was not built: {failure}",
            cure=f"The whole log is in {log.name}.",
        )


def _context() -> io.BytesIO:
    """What the Dockerfile copies, as an archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for path in (dockerfile(), sshd_config()):
            data = path.read_bytes()
            member = tarfile.TarInfo(path.name)
            member.size = len(data)
            member.mode = 0o644
            tar.addfile(member, io.BytesIO(data))
    buffer.seek(0)
    return buffer
