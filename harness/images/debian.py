"""Debian's releases as material for base images, from device_images/debian.yaml."""

from __future__ import annotations

from dataclasses import dataclass

from harness.build.elf import version_key
from harness.config.document import read_document
from harness.config.validation import Field, ListOf, Record, Shape, Text, from_dataclass
from harness.resources import resource

PACKAGE = Text(expected="the name of a Debian package", pattern=r"[a-z0-9][a-z0-9+.-]+")
_SUITE = Text(expected="a suite of Debian", pattern=r"[a-z][a-z-]*")


@dataclass(frozen=True, kw_only=True)
class Release:
    """A release of Debian that the archive serves."""

    suite: str
    glibc: str
    packages: tuple[str, ...] = ()  # of every base built from it


@dataclass(frozen=True, kw_only=True)
class Debian:
    """Debian's releases, and the packages for building the engine."""

    releases: tuple[Release, ...]
    building: tuple[str, ...]  # suites whose compiler and CMake can build the engine
    build_packages: tuple[str, ...]  # the packages for that

    def nearest(self, glibc: str, *, building: bool = False) -> tuple[Release, ...]:
        """The releases, nearest C library first; of two equally near ones, the older first."""
        fit = [release for release in self.releases if not building or release.suite in self.building]
        return tuple(
            sorted(fit, key=lambda release: (_distance(release.glibc, glibc), version_key(release.glibc)))
        )


def _distance(one: str, other: str) -> tuple[int, ...]:
    return tuple(abs(a - b) for a, b in zip(version_key(one), version_key(other), strict=False))


_VERSION = Text(expected='a version like "2.31"', pattern=r"[0-9]+\.[0-9]+")
_RELEASE: Shape[Release] = Record(
    what="a release",
    make=from_dataclass(Release),
    fields={
        "suite": Field(shape=_SUITE, help="the name in the archive", required=True),
        "glibc": Field(shape=_VERSION, help="version of the C library", required=True),
        "packages": Field(shape=ListOf(what="packages", item=PACKAGE), help="packages that every base needs"),
    },
)
_SHAPE: Shape[Debian] = Record(
    what="Debian",
    make=from_dataclass(Debian),
    fields={
        "releases": Field(
            shape=ListOf(what="releases", item=_RELEASE),
            help="the releases that are still served",
            required=True,
        ),
        "building": Field(
            shape=ListOf(what="suites", item=_SUITE),
            help="the suites whose compiler and CMake can build the engine",
            required=True,
        ),
        "build_packages": Field(
            shape=ListOf(what="packages", item=PACKAGE),
            help="the compiler and its tools",
            required=True,
        ),
    },
)


def read_debian() -> Debian:
    """Raises ConfigurationError with file and line."""
    return _SHAPE.read(read_document(resource("device_images", "debian.yaml")))
