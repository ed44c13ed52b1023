"""Reads the requirements of a program from its ELF file, and checks that a target meets them."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.config.targets import Architecture, Target
from harness.errors import BuildError, TargetMismatchError

# Parts of glibc: every system with glibc has them.
_GLIBC_LIBRARIES = re.compile(r"(libc|libm|libpthread|libdl|librt|ld-linux-[a-z0-9_-]+)\.so\.\d+")
_GCC_LIBRARIES = {"libstdc++.so.6", "libgcc_s.so.1"}
_MACHINES: dict[str, Architecture] = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}
# Versions with a name: the glibc version that introduced each.
_NAMED = {"GLIBC_ABI_DT_RELR": "2.36"}


@dataclass(frozen=True, kw_only=True)
class VersionNeed:
    """The highest symbol version of one family (GLIBC, GLIBCXX, ...) that a program needs."""

    version: str
    library: str
    symbols: tuple[str, ...] = ()  # the symbols of that version


@dataclass(frozen=True, kw_only=True)
class ElfNeeds:
    """A program's architecture, shared libraries, and highest symbol version by family."""

    architecture: str
    libraries: tuple[str, ...]
    versions: dict[str, VersionNeed] = field(default_factory=dict)

    @property
    def glibc(self) -> str:
        """The highest glibc version needed; "" for a static program."""
        need = self.versions.get("GLIBC")
        return need.version if need else ""


def version_key(version: str) -> tuple[int, ...]:
    """For comparing versions: "2.4" is below "2.27"."""
    return tuple(int(part) for part in version.split("."))


def read_needs(path: Path) -> ElfNeeds:
    """Reads a program or shared library. Raises BuildError if it is not an ELF file."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        with path.open("rb") as stream:
            elf = ELFFile(stream)
            return ElfNeeds(
                architecture=_MACHINES.get(elf["e_machine"], str(elf["e_machine"])),
                libraries=_libraries(elf),
                versions=_versions(elf),
            )
    except (ELFError, OSError) as error:
        raise BuildError(f"{path}: cannot be read as a program (ELF): {error}") from None


def _libraries(elf: Any) -> tuple[str, ...]:
    dynamic = elf.get_section_by_name(".dynamic")
    if dynamic is None:
        return ()
    return tuple(tag.needed for tag in dynamic.iter_tags() if tag.entry.d_tag == "DT_NEEDED")


def _versions(elf: Any) -> dict[str, VersionNeed]:
    needs = elf.get_section_by_name(".gnu.version_r")
    if needs is None:
        return {}
    highest: dict[str, tuple[VersionNeed, int]] = {}
    for library, versions in needs.iter_versions():
        for entry in versions:
            family, _, version = entry.name.partition("_")
            version = _NAMED.get(entry.name, version)
            if not re.fullmatch(r"\d+(\.\d+)*", version):
                continue
            if family in highest and version_key(version) <= version_key(highest[family][0].version):
                continue
            need = VersionNeed(version=version, library=library.name)
            highest[family] = (need, entry["vna_other"] & 0x7FFF)
    return {
        family: replace(need, symbols=_symbols_of(elf, number)) for family, (need, number) in highest.items()
    }


def _symbols_of(elf: Any, version: int) -> tuple[str, ...]:
    """The dynamic symbols of one version. Only these are parsed: libraries have 100,000 symbols."""
    numbers, names = elf.get_section_by_name(".gnu.version"), elf.get_section_by_name(".dynsym")
    if numbers is None or names is None:
        return ()
    table = np.frombuffer(numbers.data(), "<u2" if elf.little_endian else ">u2") & 0x7FFF
    return tuple(sorted(names.get_symbol(int(i)).name for i in np.flatnonzero(table == version)))


def _own_glibc() -> str | None:
    """This machine's glibc version; None if it has another C library."""
    name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    return version if name == "glibc" else None


def check_fits(needs: ElfNeeds, target: Target, program: str, *, beside: Collection[str] = ()) -> None:
    """Raises TargetMismatchError that names the symbol and the library, with a hint.

    `beside`: libraries that are deployed together with the program.
    """
    if needs.architecture != target.architecture:
        raise TargetMismatchError(
            f"{program} is built for {needs.architecture}, but {target.name} is {target.architecture}",
            hint=f"Build it with `harness build --target {target.name}`.",
        )
    limits = {
        "GLIBC": ("glibc", _own_glibc() if target.is_host else target.glibc),
        "GLIBCXX": ("libstdc++'s GLIBCXX", target.libstdcxx),
        "CXXABI": ("libstdc++'s CXXABI", target.cxxabi),
        "GCC": ("libgcc's GCC", target.libgcc),
    }
    for family, (title, limit) in limits.items():
        need = needs.versions.get(family)
        if need is None or limit is None or version_key(need.version) <= version_key(limit):
            continue
        symbols = ", ".join(need.symbols[:3]) or "a symbol"
        raise TargetMismatchError(
            f"{program} needs {title} {need.version} ({family}_{need.version}) for {symbols} of "
            f"{need.library}, and {target.name} has {limit}",
            hint=f"Build with `harness build --target {target.name} --toolchain zig`, "
            f"which links against glibc {target.glibc} and needs no libstdc++.",
        )
    if target.is_host:  # the self-test finds missing libraries
        return
    for library in needs.libraries:
        known = library in _GCC_LIBRARIES and target.libstdcxx
        if known or library in beside or _GLIBC_LIBRARIES.fullmatch(library):
            continue
        raise TargetMismatchError(
            f"{program} needs the library {library}, which {target.name} does not have",
            hint="Link it statically, or build with --toolchain zig.",
        )
