"""The inputs of an arm64 image: pins and packages of a target, from device_images/."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.config.document import read_document
from harness.config.validation import Field, ListOf, Record, Shape, Text, from_dataclass
from harness.errors import ConfigurationError
from harness.images.debian import PACKAGE, Release, read_debian
from harness.resources import resource

if TYPE_CHECKING:
    from harness.config.targets import Target

# Enough of Debian to run programs and an SSH server.
_BOOTSTRAP_PACKAGES = ("base-files", "base-passwd", "coreutils", "dash", "libc-bin")


@dataclass(frozen=True, kw_only=True)
class Base:
    """A base image in a registry."""

    name: str  # NAME:TAG
    digest: str = ""  # sha256:… of the arm64 manifest; "": only the tag is known

    @property
    def reference(self) -> str:
        """The reference for pulling it."""
        return f"{self.name.rpartition(':')[0]}@{self.digest}" if self.digest else self.name

    @classmethod
    def parse(cls, text: str) -> Base:
        name, _, digest = text.partition("@")
        return cls(name=name, digest=digest)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The inputs of an image."""

    name: str  # of the image, without its tag
    bases: tuple[Base, ...]  # the first available one is used
    releases: tuple[Release, ...]  # Debian's, if no registry has a base; may be empty
    packages: tuple[str, ...]
    configured: bool = False  # whether a bootstrapped base runs the maintainer scripts of its packages

    def bootstrap_packages(self, release: Release) -> tuple[str, ...]:
        return tuple(sorted({*_BOOTSTRAP_PACKAGES, *release.packages, *self.packages}))

    def bootstrap_key(self, release: Release) -> str:
        """Names a bootstrapped base; targets with the same needs share it."""
        how = ["configured"] if self.configured else []
        return _digest(["bootstrap 2", *how, release.suite, *self.bootstrap_packages(release)])

    def key(self) -> str:
        """A hash of all inputs of the image."""
        bases = [base.reference for base in self.bases]
        releases = [self.bootstrap_key(release) for release in self.releases]
        files = [path.read_text("utf-8") for path in (dockerfile(), sshd_config())]
        return _digest(["image 2", *bases, *releases, *self.packages, *files])


@dataclass(frozen=True, kw_only=True)
class _Sheet:
    """An image.yaml."""

    packages: tuple[str, ...]
    bases: tuple[str, ...] = ()
    build_packages: tuple[str, ...] = ()


_SHAPE: Shape[_Sheet] = Record(
    what="an image",
    make=from_dataclass(_Sheet),
    fields={
        "bases": Field(
            shape=ListOf(
                what="base images",
                item=Text(
                    expected="NAME:TAG@sha256:DIGEST or NAME:TAG",
                    pattern=r"[a-z0-9./:_-]+:[A-Za-z0-9_.-]+(@sha256:[0-9a-f]{64})?",
                ),
            ),
            help="base images in registries, pinned by the digest of the arm64 manifest if known",
        ),
        "packages": Field(
            shape=ListOf(what="packages", item=PACKAGE),
            help="packages of the image",
            required=True,
        ),
        "build_packages": Field(
            shape=ListOf(what="packages", item=PACKAGE),
            help="packages that build the engine on these bases; omit if their compilers are too old",
        ),
    },
)


def read_recipe(target: Target, *, building: bool = False) -> Recipe:
    """The recipe of a target's image, or of the one that builds the engine for it.

    Raises ConfigurationError for a target without an image.
    """
    if not target.image or not target.glibc:
        raise ConfigurationError(
            f"the target {target.name} has no image",
            hint="Images are for emulated arm64 targets, such as pi4.",
        )
    sheet = _SHAPE.read(read_document(resource("device_images", target.image, "image.yaml")))
    debian = read_debian()
    bases, packages = sheet.bases, sheet.packages
    if building:
        bases = bases if sheet.build_packages else ()
        packages = tuple(sorted({*packages, *(sheet.build_packages or debian.build_packages)}))
    return Recipe(
        name=f"{target.image}-build" if building else target.image,
        bases=tuple(Base.parse(text) for text in bases),
        releases=debian.nearest(target.glibc, building=building),
        packages=packages,
    )


def dockerfile() -> Path:
    return resource("Dockerfile.arm64")


def sshd_config() -> Path:
    return resource("device_images", "sshd_config")


def _digest(parts: list[str]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
