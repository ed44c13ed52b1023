"""Targets: kinds of board, each a YAML file. Users write files of their own in the same form."""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from harness.config.board_data import BoardData, board_shape
from harness.config.document import Node, read_document, suggestion
from harness.config.validation import (
    Choice,
    ExistingPath,
    Field,
    ListOf,
    Record,
    Schema,
    Text,
    document_schema,
)
from harness.errors import ConfigurationError
from harness.resources import resource

Architecture = Literal["x86_64", "aarch64"]

ARCHITECTURES: tuple[Architecture, ...] = ("x86_64", "aarch64")
_OWN = (".yaml", ".yml")  # how the path of a user's own file ends
FEATURES = ("neon", "lse", "fp16", "dotprod", "sve")


@dataclass(frozen=True, kw_only=True)
class Target:
    """A kind of board: how to compile for it, emulate it, and predict its speed."""

    name: str
    description: str
    architecture: Architecture
    cpu: str | None = None  # the core
    qemu_cpu: str | None = None  # QEMU's name of the core that executes the same instructions
    features: tuple[str, ...] = ()  # the core's, from FEATURES
    glibc: str | None = None  # the version that the board's system has
    libstdcxx: str | None = None  # the highest GLIBCXX symbol version there
    cxxabi: str | None = None  # the highest CXXABI symbol version there
    libgcc: str | None = None  # the highest GCC symbol version there, of libgcc_s
    sysroot: str | None = None  # folder with the board's headers and libraries, for gcc and clang
    tensorflow: str | None = None  # version; toolchains/tensorflow/ pins its wheel
    tensorflow_bazel: str | None = None  # file there that says how it is built from its sources
    image: str | None = None  # folder below device_images/
    board: BoardData | None = None  # the data for predicting its speed
    aliases: tuple[str, ...] = ()

    @property
    def is_host(self) -> bool:
        """Whether this is the machine that harness runs on."""
        return self.name == "host"


def host_architecture() -> Architecture:
    """The architecture of this machine. Raises ConfigurationError if the engine does not support it."""
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine())
    if platform.system() != "Linux" or machine not in ARCHITECTURES:
        raise ConfigurationError(
            f"the engine needs Linux on x86_64 or aarch64; this is {platform.system()} on {machine}",
            hint="Run harness on a supported machine, or in a virtual machine.",
        )
    return machine


def _make(
    name: str,
    *,
    description: str,
    architecture: Architecture | None = None,
    cpu: str | None = None,
    qemu_cpu: str | None = None,
    **rest: object,
) -> Target:
    values = {"qemu_cpu": qemu_cpu or cpu, **rest}
    return Target(
        name=name,
        description=description,
        architecture=architecture or host_architecture(),
        cpu=cpu,
        **values,  # type: ignore[arg-type]
    )


def image_names() -> list[str]:
    """The folders below device_images/ that describe an image."""
    return sorted(path.parent.name for path in resource("device_images").glob("*/image.yaml"))


def _donors() -> dict[str, tuple[str, BoardData]]:
    """All names of a target that ships -> its main name and its board, if it has one that borrows nothing."""
    documents = [read_document(path) for path in _shipped()]
    lenders = [_SHAPE.read(document) for document in documents if not _borrows(document)]
    return {
        each: (target.name, target.board)
        for target in lenders
        if target.board
        for each in (target.name, *target.aliases)
    }


def _borrows(document: Node) -> bool:
    """Whether a target has coefficients of another one. Reading these before the others would never end."""
    board = document.entries.get("board")
    return board is not None and any(
        value.kind == "text" for key, value in board.entries.items() if key.startswith("coefficients")
    )


BOARD_SHAPE = board_shape(_donors)
_EXAMPLE_BOARD = {
    "cores": 4,
    "clock_mhz": 1800,
    "copy_mb_per_second": 2500,
    "caches": [{"kib": 32, "ways": 2}, {"kib": 1024, "ways": 16, "shared": True}],
    "midr": "0x410fd083",
    "core_model": "cortex-a72",
}
_VERSION = r"[0-9]+(\.[0-9]+)+"
_SHAPE: Record[Target] = Record(
    what="a target",
    fields={
        "description": Field(
            shape=Text(expected="a line of text"),
            help="board and system, for `harness targets`",
            required=True,
            example="Raspberry Pi 4, Raspberry Pi OS 12",
        ),
        "aliases": Field(
            shape=ListOf(what="other names", item=Text()), help="other names of the target", example=["pi"]
        ),
        "architecture": Field(
            shape=Choice(what="architecture", names=lambda: ARCHITECTURES),
            help="architecture of the processor; this machine's own if absent",
            example="aarch64",
        ),
        "cpu": Field(
            shape=Text(expected="a core", pattern=r"[A-Za-z0-9][A-Za-z0-9._+-]*"),
            help="name of the core; QEMU's too, if `qemu_cpu` is absent",
            example="cortex-a72",
        ),
        "qemu_cpu": Field(
            shape=Text(expected="a core"),
            help="QEMU's name of the core; that of `cpu` if absent",
            example="neoverse-n1",
        ),
        "features": Field(
            shape=ListOf(what="features", item=Choice(what="feature", names=lambda: FEATURES)),
            help="instruction sets of the core",
            example=["neon", "lse", "fp16", "dotprod"],
        ),
        "glibc": Field(
            shape=Text(expected='a version like "2.31"', pattern=_VERSION),
            help="version of the board's C library",
            required=True,
            example="2.31",
        ),
        "libstdcxx": Field(
            shape=Text(expected='a version like "3.4.28"', pattern=_VERSION),
            help="highest GLIBCXX symbol version of the board's C++ library",
            example="3.4.28",
        ),
        "cxxabi": Field(
            shape=Text(expected='a version like "1.3.13"', pattern=_VERSION),
            help="highest CXXABI symbol version of the board's C++ library",
            example="1.3.13",
        ),
        "libgcc": Field(
            shape=Text(expected='a version like "7.0.0"', pattern=_VERSION),
            help="highest GCC symbol version of the board's libgcc_s",
            example="7.0.0",
        ),
        "sysroot": Field(
            shape=Text(expected="a folder"),
            help="folder with the board's headers and libraries, for the toolchains gcc and clang",
            example="/opt/sysroots/pi4",
        ),
        "tensorflow": Field(
            shape=Text(expected='a version like "2.21.0"', pattern=_VERSION),
            help="version of TensorFlow for `build --with tensorflow`; toolchains/tensorflow/ pins its wheel",
            example="2.21.0",
        ),
        "tensorflow_bazel": Field(
            shape=Text(expected="a file's name", pattern=r"[a-zA-Z0-9._-]+"),
            help="file below toolchains/tensorflow/ that says how to build TensorFlow from its sources",
            example="bazel-2.12.0.yaml",
        ),
        "image": Field(
            shape=Choice(what="image", names=image_names),
            help="folder below device_images/ that describes the target's Docker image",
            example="pi4",
        ),
        "board": Field(
            shape=BOARD_SHAPE,
            help="processor and memory, from which speed is predicted",
            example=_EXAMPLE_BOARD,
        ),
    },
    make=lambda node, **values: _make(Path(node.file).stem, **values),
)


def read_target(path: Path) -> Target:
    """The target of one file; its name is the file's. Raises ConfigurationError with file and line."""
    return _SHAPE.read(read_document(path))


def json_schema() -> Schema:
    """The JSON schema of a targets file."""
    return document_schema("harness targets file", _SHAPE)


def _shipped() -> list[Path]:
    return list(resource("toolchains", "targets").glob("*.yaml"))


def all_targets() -> list[Target]:
    """The targets that ship: the host first, then by name."""
    targets = [read_target(path) for path in _shipped()]
    return sorted(targets, key=lambda target: (not target.is_host, target.name))


def _by_name() -> dict[str, Target]:
    """The targets that ship, by each of their names."""
    return {name: target for target in all_targets() for name in (target.name, *target.aliases)}


def shared_target(target: Target) -> Target:
    """The target with the oldest C library of all shipped targets with its architecture, or its own if that
    is older. A program that is compiled for the result runs on all of them."""
    versions = [
        known.glibc for known in (target, *all_targets()) if known.architecture == target.architecture
    ]
    oldest = min(
        (version for version in versions if version),
        key=lambda version: tuple(map(int, version.split("."))),
        default=None,
    )
    return replace(target, glibc=oldest)


def load_target(name: str) -> Target:
    """A target by name, by alias, or by the path of a user's own file. Raises ConfigurationError."""
    if name.endswith(_OWN):
        return read_target(Path(name))
    known = _by_name()
    if name in known:
        return known[name]
    raise ConfigurationError(
        f"unknown target {name}: {suggestion(name, known)}",
        hint="`harness targets` lists them. Name a file of your own by its path, which ends in .yaml.",
    )


class TargetShape:
    """A target by any of its names, or by the path of a user's own file, relative to the document."""

    _path = ExistingPath(what="target's file")

    def read(self, node: Node) -> Target:
        known = _by_name()
        if not node.source.endswith(_OWN):
            return known[Choice(what="target", names=lambda: list(known)).read(node)]
        own = read_target(self._path.read(node))
        if own.name in known or not own.name.isprintable():
            taken = "belongs to a target that ships" if own.name in known else "has unprintable characters"
            raise node.error(
                f"a target has the name of its file, and {own.name!r} {taken}",
                hint="Rename the file.",
            )
        return own

    def schema(self) -> Schema:
        return {"anyOf": [{"enum": list(_by_name())}, self._path.schema() | {"pattern": r"\.ya?ml$"}]}
