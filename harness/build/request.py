"""The request for a build, and the keys of its results in the cache."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from harness.build.manifest import FORMAT
from harness.build.toolchain import Toolchain
from harness.config.targets import Target, shared_target
from harness.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class BuildRequest:
    """A program for a target."""

    target: Target
    toolchain: Toolchain
    flags: str = ""  # additional, for the compiler
    ablation: bool = False  # with the algorithms that only the ablation uses
    sources: Mapping[str, bytes] = field(repr=False)  # contents by path

    @cached_property
    def shared(self) -> Target:
        """The target that the program is compiled for."""
        return shared_target(self.target)

    @cached_property
    def hashes(self) -> dict[str, str]:
        """Path -> SHA-256 of each source, in hex."""
        return {path: hashlib.sha256(content).hexdigest() for path, content in self.sources.items()}

    @property
    def folder_name(self) -> str:
        """The name of the folder for requests with the same toolchain and targets that share programs."""
        values = json.dumps([self.toolchain.place, self.toolchain.compiles_for(self.shared)], sort_keys=True)
        digest = hashlib.sha256(values.encode()).hexdigest()[:12]
        return f"{self.toolchain.name}-{self.shared.architecture}-{digest}"

    @property
    def program_key(self) -> str:
        """Identifies the program by everything that determines it."""
        parts = {
            "format": FORMAT,
            "place": self.toolchain.place,
            "for": self.toolchain.compiles_for(self.shared),
            "flags": self.flags,
            "ablation": self.ablation,
            "sources": self.hashes,
        } | self.toolchain.identity(self.shared)
        return _digest(parts)

    @property
    def key(self) -> str:
        """Identifies a target's build: the program, and everything that the target's gates depend on."""
        parts = {
            "program": self.program_key,
            "architecture": self.target.architecture,
            "cpu": self.target.cpu,
            "qemu_cpu": self.target.qemu_cpu,
            "glibc": self.target.glibc,
            "libstdcxx": self.target.libstdcxx,
            "cxxabi": self.target.cxxabi,
            "libgcc": self.target.libgcc,
            "features": self.target.features,
        }
        return _digest(parts)


def flag_words(flags: str) -> list[str]:
    """Compiler flags as a shell would read them. Raises ConfigurationError."""
    try:
        return shlex.split(flags)
    except ValueError as error:
        raise ConfigurationError(f"the compiler flags {flags}: {error}") from None


def _digest(parts: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
