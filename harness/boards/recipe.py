"""What an arm64 image is made of: the pins and packages of a target, from device_images/."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.configuration.document import read_document
from harness.configuration.shapes import Field, ListOf, Record, Text, made_of
from harness.errors import ConfigurationError
from harness.resources import resource

if TYPE_CHECKING:
    from harness.configuration.targets import Target

# Enough of Debian to run programs and an SSH server. usr-is-merged keeps usrmerge, and Perl with it, out.
_BOOTSTRAP_PACKAGES = ("base-files", "base-passwd", "coreutils", "dash", "libc-bin", "usr-is-merged")

_PACKAGE = Text(expected="the name of a Debian package", pattern=r"[a-z0-9][a-z0-9+.-]+")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The inputs of a target's image."""

    base: str  # NAME@sha256:DIGEST of the arm64 manifest in a registry
    base_name: str  # the tag that had this digest when it was pinned
    bootstrap: str  # Debian's suite, where no registry answers
    packages: tuple[str, ...]

    @property
    def bootstrap_packages(self) -> tuple[str, ...]:
        return tuple(sorted({*_BOOTSTRAP_PACKAGES, *self.packages}))

    def bootstrap_key(self) -> str:
        """Names the bootstrapped base; targets with the same needs share it."""
        return _digest(["bootstrap 1", self.bootstrap, *self.bootstrap_packages])

    def key(self) -> str:
        """Changes when anything the image is made of changes."""
        files = [path.read_text("utf-8") for path in (dockerfile(), sshd_config())]
        return _digest(["image 1", self.base, self.bootstrap_key(), *self.packages, *files])


_SHAPE = Record(
    what="an image",
    make=made_of(Recipe),
    fields={
        "base": Field(
            shape=Text(expected="NAME@sha256:DIGEST", pattern=r"[a-z0-9./:_-]+@sha256:[0-9a-f]{64}"),
            help="the base image, pinned by the digest of its arm64 manifest",
            required=True,
        ),
        "base_name": Field(shape=Text(), help="the tag that had this digest", required=True),
        "bootstrap": Field(
            shape=Text(expected="a suite of Debian", pattern=r"[a-z][a-z-]*"),
            help="Debian's suite for the base where no registry answers",
            required=True,
        ),
        "packages": Field(
            shape=ListOf(what="packages", item=_PACKAGE),
            help="Debian packages of the image",
            required=True,
        ),
    },
)


def read_recipe(target: Target) -> Recipe:
    """The recipe of a target's image. Raises ConfigurationError for a target that has none."""
    if not target.image:
        raise ConfigurationError(
            f"the target {target.name} has no image",
            cure="Images are for emulated arm64 targets, such as pi4.",
        )
    return _SHAPE.read(read_document(resource("device_images", target.image, "image.yaml")))


def dockerfile() -> Path:
    return resource("Dockerfile.arm64")


def sshd_config() -> Path:
    return resource("device_images", "sshd_config")


def _digest(parts: list[str]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
