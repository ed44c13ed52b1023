"""Builds the arm64 image of a target with the Docker Engine's API.

An image is tagged only when it is complete, and labelled with a hash of its inputs. A second call finds it; a
changed Dockerfile or pin builds a new one.
"""

from __future__ import annotations

import io
import os
import re
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness import console
from harness.build.elf import version_key
from harness.build.lock import exclusive
from harness.build.log import BuildLog, build_log
from harness.errors import BuildError
from harness.images import docker_engine
from harness.images.bootstrap import ReleaseGoneError, base_tag, bootstrap
from harness.images.docker_engine import DockerError, refused, short
from harness.images.recipe import Base, Recipe, dockerfile, read_recipe, sshd_config
from harness.qemu.binfmt import ARM64_HINT, arm64_programs_run
from harness.resources import cache_directory

if TYPE_CHECKING:
    from collections.abc import Iterable

    from docker import DockerClient

    from harness.config.targets import Target

INPUTS_LABEL = "harness.inputs"
BASE_LABEL = "harness.base"
GLIBC_LABEL = "harness.glibc"
TARGET_GLIBC_LABEL = "harness.glibc.target"
PLATFORM = "linux/arm64"
_BOOTSTRAP = "bootstrap "
_ROOM = "An image build takes 1 GB in the cache folder: free disk space, or set HARNESS_CACHE."
_STEP = re.compile(r"Step (\d+/\d+) : (\S+)")
PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "no_proxy")


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image in the Docker Engine."""

    target: Target
    tag: str
    id: str  # sha256:…
    base: str  # a registry's NAME:TAG@DIGEST, or "bootstrap SUITE" of Debian
    glibc: str  # the version of its C library

    @property
    def source(self) -> str:
        """The source of its base: registry or bootstrap."""
        return "bootstrap" if self.base.startswith(_BOOTSTRAP) else "registry"

    @property
    def glibc_newer(self) -> bool:
        """Whether its C library is newer than the target's, so that more programs run in it."""
        return version_key(self.glibc) > version_key(str(self.target.glibc))

    def described(self) -> str:
        """Its base and C library, for people."""
        newer = f", newer than the target's {self.target.glibc}" if self.glibc_newer else ""
        return f"{self.base}, glibc {self.glibc}{newer}"


@dataclass(frozen=True, kw_only=True)
class BuiltImage:
    """The result of `build_image`."""

    image: Image
    seconds: float
    cached: bool
    log: Path  # of the last build


def image_tag(recipe: Recipe) -> str:
    return f"harness/{recipe.name}:{recipe.key()[:16]}"


def build_image(
    target: Target, *, fresh: bool = False, building: bool = False, recipe: Recipe | None = None
) -> BuiltImage:
    """The target's image, built if it is missing; with `fresh`, it and its base are always built.

    `building`: the image in which the engine is built for the target; `recipe`: another one for it. Raises
    BuildError with the place of the log, DockerError if no engine answers.
    """
    started = time.monotonic()
    recipe = recipe or read_recipe(target, building=building)
    client = docker_engine.connect()
    try:
        image = None if fresh else _find(client, recipe, target)
        cached = image is not None
        if image is None:
            image, cached = _provide(client, recipe, target, fresh=fresh)
    finally:
        client.close()
    return BuiltImage(image=image, seconds=time.monotonic() - started, cached=cached, log=log_path(recipe))


def _provide(client: DockerClient, recipe: Recipe, target: Target, *, fresh: bool) -> tuple[Image, bool]:
    """The image, and whether another harness has built it meanwhile."""
    lock = cache_directory() / "images" / f"{recipe.name}.lock"
    with exclusive(lock, f"another harness, which builds the image {recipe.name}"):
        image = None if fresh else _find(client, recipe, target)
        if image is not None:
            return image, True
        _build(client, recipe, target, fresh)
        image = _find(client, recipe, target)
    if image is None:
        raise BuildError(f"the image {recipe.name} disappeared from the Docker Engine right after its build")
    return image, False


def image_present(client: DockerClient, target: Target) -> bool:
    """Whether the target's image exists and is up to date."""
    return _find(client, read_recipe(target), target) is not None


def built_images(targets: Iterable[Target]) -> dict[str, Image]:
    """The up-to-date images, by target; empty if no Docker Engine answers."""
    try:
        client = docker_engine.connect(timeout=docker_engine.ANSWER_SECONDS)
    except DockerError:
        return {}
    try:
        found = {
            target.name: _find(client, read_recipe(target), target) for target in targets if target.image
        }
    finally:
        client.close()
    return {name: image for name, image in found.items() if image is not None}


def _find(client: DockerClient, recipe: Recipe, target: Target) -> Image | None:
    """The image that has the recipe's inputs."""
    from docker.errors import ImageNotFound

    tag = image_tag(recipe)
    with docker_engine.answering("looking for images"):
        try:
            found = client.images.get(tag)
        except ImageNotFound:
            return None
    labels = found.labels
    if labels.get(INPUTS_LABEL) != recipe.key() or found.attrs.get("Architecture") != "arm64":
        return None
    return Image(
        target=target,
        tag=tag,
        id=str(found.id),
        base=labels.get(BASE_LABEL, ""),
        glibc=labels.get(GLIBC_LABEL, ""),
    )


def _build(client: DockerClient, recipe: Recipe, target: Target, fresh: bool) -> None:
    if not arm64_programs_run():
        raise BuildError(
            "this machine cannot run arm64 programs, which an image build needs", hint=ARM64_HINT
        )
    with build_log(log_path(recipe), f"image {recipe.name}", room=_ROOM) as log:
        base, described = _base(client, recipe, fresh, log)
        _build_on(client, recipe, target, base, described, fresh, log)


def log_path(recipe: Recipe) -> Path:
    """The file with the full output of the last build."""
    return cache_directory() / "images" / f"{recipe.name}.log"


def _base(client: DockerClient, recipe: Recipe, fresh: bool, log: BuildLog) -> tuple[str, str]:
    """The base to build on and its name: from a registry, else bootstrapped."""
    if not fresh:
        for base in recipe.bases:
            if described := _pulled(client, base):
                return base.reference, described
        for release in recipe.releases[:1]:
            if _arm64_image(client, tag := base_tag(recipe, release)):
                return tag, _BOOTSTRAP + release.suite
    for base in recipe.bases:
        if _pull(client, base, log) and (described := _pulled(client, base)):
            return base.reference, described
    return _bootstrapped(client, recipe, fresh, log)


def _arm64_image(client: DockerClient, reference: str) -> dict[str, object] | None:
    """The engine's data of an image; None if it has no arm64 image of that name."""
    from docker.errors import ImageNotFound

    with docker_engine.answering("looking for images"):
        try:
            attributes: dict[str, object] = client.images.get(reference).attrs
        except ImageNotFound:
            return None
    return attributes if attributes.get("Architecture") == "arm64" else None


def _pulled(client: DockerClient, base: Base) -> str:
    """The name of an existing base, with its digest even if the reference is a tag."""
    image = _arm64_image(client, base.reference)
    if image is None:
        return ""
    digest = base.digest
    for known in image.get("RepoDigests") or []:  # type: ignore[attr-defined]
        digest = digest or known.partition("@")[2]
    return f"{base.name}@{digest}" if digest else base.name


def _bootstrapped(client: DockerClient, recipe: Recipe, fresh: bool, log: BuildLog) -> tuple[str, str]:
    """A base built from the first of the recipe's releases that Debian's archive still serves."""
    for number, release in enumerate(recipe.releases):
        tag = base_tag(recipe, release)
        if not fresh and _arm64_image(client, tag):
            return tag, _BOOTSTRAP + release.suite
        console.log(
            f"no registry has the base of the image {recipe.name}: building one from Debian {release.suite} "
            f"(glibc {release.glibc})"
        )
        try:
            return bootstrap(client, recipe, release, log), _BOOTSTRAP + release.suite
        except ReleaseGoneError as error:
            if number == len(recipe.releases) - 1:
                raise
            console.warn(f"{error.message}; trying {recipe.releases[number + 1].suite}")
    raise BuildError(
        f"no registry has the base of the image {recipe.name}, and no release of Debian is old enough to "
        "make one from",
        hint=f"Make sure that the Docker Engine can reach {' or '.join(base.name for base in recipe.bases)}.",
    )


def registry_has(client: DockerClient, base: Base) -> bool:
    """Whether the Docker Engine reaches the base's registry and finds the base there."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        client.api.inspect_distribution(base.reference)  # type: ignore[no-untyped-call]
    except (DockerException, RequestException):
        return False
    return True


def _pull(client: DockerClient, base: Base, log: BuildLog) -> bool:
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    log.line(f"looking for {base.name}")
    asking = docker_engine.connect(timeout=docker_engine.ANSWER_SECONDS)
    try:
        if not registry_has(asking, base):
            return False
    finally:
        asking.close()
    failure = ""
    layers: dict[str, int] = {}
    log.at(f"pulling {base.name}")
    try:
        # Read to the end even after an error: an open stream keeps its socket.
        for event in client.api.pull(base.reference, platform=PLATFORM, stream=True, decode=True):
            detail = event.get("progressDetail") or {}
            if "current" in detail:
                layers[event.get("id", "")] = detail["current"]
                log.at(f"pulling {base.name}: {sum(layers.values()) / 1e6:.0f} MB")
            else:
                log.line(f"{event.get('id', '')} {event.get('status', '')} {event.get('error', '')}")
            failure = failure or event.get("error", "")
    except (DockerException, RequestException) as error:
        failure = short(error)
    if failure:
        console.warn(f"pulling {base.name}: {failure}")
    return not failure


def _glibc_of(client: DockerClient, base: str) -> str:
    """The version of the C library in an image, reported by a program in it."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        said = client.containers.run(
            base,
            ["GNU_LIBC_VERSION"],
            entrypoint=["getconf"],
            platform=PLATFORM,
            network_disabled=True,
            remove=True,
        )
    except (DockerException, RequestException) as error:
        raise refused("could not run an arm64 program in the base image", error) from None
    return str(said.decode("ascii", "replace").split()[-1])


def _build_on(
    client: DockerClient,
    recipe: Recipe,
    target: Target,
    base: str,
    described: str,
    fresh: bool,
    log: BuildLog,
) -> None:
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    glibc = _glibc_of(client, base)
    log.line(f"building {recipe.name} on {described}, glibc {glibc}")
    labels = {
        INPUTS_LABEL: recipe.key(),
        BASE_LABEL: described,
        GLIBC_LABEL: glibc,
        TARGET_GLIBC_LABEL: str(target.glibc),
    }
    packages = () if described.startswith(_BOOTSTRAP) else recipe.packages
    arguments = {"BASE": base, "PACKAGES": " ".join(packages)}
    arguments |= {name: os.environ[name] for name in PROXIES if name in os.environ}
    failure = ""
    try:
        events = client.api.build(
            fileobj=_context(),
            custom_context=True,
            encoding="gzip",
            dockerfile="Dockerfile.arm64",
            tag=image_tag(recipe),
            buildargs=arguments,
            labels=labels,
            platform=PLATFORM,
            nocache=fresh,
            rm=True,
            forcerm=True,
            decode=True,
        )
        for event in events:  # to their end, as in _pull
            for text in (event.get("stream", ""), event.get("error", "")):
                for line in text.splitlines():
                    if step := _STEP.match(line):
                        log.at(f"step {step[1]} ({step[2]})")
                    # The builder's output about layers is only for the log.
                    (log.keep if line.startswith((" --->", "Removing ")) else log.line)(line)
            failure = failure or event.get("error", "")
    except (DockerException, RequestException) as error:
        raise refused(f"could not build the image {recipe.name}", error) from None
    if failure:
        raise refused(f"could not build the image {recipe.name}", failure)


def _context() -> io.BytesIO:
    """The files that the Dockerfile copies, as an archive."""
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
