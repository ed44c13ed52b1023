"""How TensorFlow is built from its sources for a target, from toolchains/tensorflow/bazel-*.yaml."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.config.document import Node, read_document
from harness.config.targets import Target
from harness.config.validation import (
    Choice,
    Entry,
    Field,
    ListOf,
    MappingOf,
    Record,
    Shape,
    Text,
    from_dataclass,
)
from harness.errors import ConfigurationError
from harness.images.debian import PACKAGE
from harness.resources import resource


@dataclass(frozen=True, kw_only=True)
class Archive:
    """A published file."""

    url: str
    sha256: str | None = None  # None: not published


@dataclass(frozen=True, kw_only=True)
class Bazel(Archive):
    """Bazel's program for arm64."""

    version: str


@dataclass(frozen=True, kw_only=True)
class Sources:
    """A TensorFlow, the Bazel that builds it, and how."""

    version: str
    source: Archive
    bazel: Bazel
    answers: dict[str, str]  # environment variables with the answers to ./configure
    monolithic: bool
    options: tuple[str, ...]  # of `bazel build`, those that change the result
    limits: tuple[str, ...]  # and those that only say how fast
    packages: tuple[str, ...]  # of the image in which it is built

    @property
    def libraries(self) -> tuple[str, ...]:
        """The C library, then its dependencies."""
        major = self.version.split(".")[0]
        framework = () if self.monolithic else (f"libtensorflow_framework.so.{major}",)
        return (f"libtensorflow.so.{major}", *framework)

    def build_options(self) -> list[str]:
        return [*self.options, *(["--config=monolithic"] if self.monolithic else [])]


_URL = Text(expected="an http or https address", pattern=r"https?://\S+")
_VERSION = Text(expected='a version like "2.6.5"', pattern=r"\d+\.\d+\.\d+")
_OPTION = Text(expected="an option like --config=opt", pattern=r"--[a-z]\S*")
_ARCHIVE_FIELDS = {
    "url": Field(shape=_URL, help="the URL", required=True),
    "sha256": Field(
        shape=Text(expected="a SHA-256", pattern=r"[0-9a-f]{64}"),
        help="the SHA-256; if absent, that of the first download is recorded and checked later",
    ),
}


def _make(node: Node, *, answers: tuple[Entry[str], ...], monolithic: str, **rest: object) -> Sources:
    del node
    return Sources(
        answers={entry.key: entry.value for entry in answers},
        monolithic=monolithic == "true",
        **rest,  # type: ignore[arg-type]
    )


_SHAPE: Shape[Sources] = Record(
    what="a TensorFlow built from sources",
    make=_make,
    fields={
        "version": Field(shape=_VERSION, help="TensorFlow's version", required=True),
        "source": Field(
            shape=Record(what="the source archive", make=from_dataclass(Archive), fields=_ARCHIVE_FIELDS),
            help="the archive of its sources (.tar.gz)",
            required=True,
        ),
        "bazel": Field(
            shape=Record(
                what="Bazel",
                make=from_dataclass(Bazel),
                fields={
                    "version": Field(shape=_VERSION, help="Bazel's version", required=True),
                    **_ARCHIVE_FIELDS,
                },
            ),
            help="Bazel's program for arm64",
            required=True,
        ),
        "answers": Field(
            shape=MappingOf(
                what="answers",
                item=Text(expected="an answer"),
                pattern=r"[A-Z][A-Z0-9_]*",
                expected="a variable of ./configure, such as TF_NEED_CUDA",
            ),
            help="the answers to ./configure, by variable",
            required=True,
        ),
        "monolithic": Field(
            shape=Choice(what="answer", names=lambda: ("true", "false")),
            help="one library (--config=monolithic), or a framework beside it",
            required=True,
        ),
        "options": Field(
            shape=ListOf(what="options", item=_OPTION),
            help="options of `bazel build` that change the result",
            required=True,
        ),
        "limits": Field(
            shape=ListOf(what="options", item=_OPTION),
            help="options of `bazel build` that change only its speed: jobs, memory",
            required=True,
        ),
        "packages": Field(
            shape=ListOf(what="packages", item=PACKAGE),
            help="packages of the build image",
            required=True,
        ),
    },
)


def read_sources(target: Target) -> Sources:
    """The target's TensorFlow. Raises ConfigurationError for a target without one."""
    if not target.tensorflow_bazel:
        raise ConfigurationError(
            f"the target {target.name} has no TensorFlow to build from sources",
            hint="Set `tensorflow_bazel` in its file to the name of a file in toolchains/tensorflow/.",
        )
    return _SHAPE.read(read_document(sources_file(target)))


def sources_file(target: Target) -> Path:
    return resource("toolchains", "tensorflow", f"{target.tensorflow_bazel}.yaml")
