"""What a program asks of the system it runs on, read from its ELF file, and whether a target has that."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.configuration.targets import Architecture, Target
from harness.errors import BuildError, TargetMismatchError

# glibc's own parts: on every system that has glibc at all.
_GLIBC_LIBRARIES = re.compile(r"(libc|libm|libpthread|libdl|librt|ld-linux-[a-z0-9_-]+)\.so\.\d+")
_GCC_LIBRARIES = {"libstdc++.so.6", "libgcc_s.so.1"}
_MACHINES: dict[str, Architecture] = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}
# Versions that are words: the glibc that introduced them.
_NAMED = {"GLIBC_ABI_DT_RELR": "2.36"}


@dataclass(frozen=True, kw_only=True)
class VersionNeed:
    """The highest version of one family (GLIBC, GLIBCXX, ...) that a program needs, and why."""

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
    """Reads a program or shared library. Raises BuildError where it is not an ELF file."""
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
    symbols: dict[int, list[str]] = {}
    indices, names = elf.get_section_by_name(".gnu.version"), elf.get_section_by_name(".dynsym")
    if indices is not None and names is not None:
        for number, symbol in enumerate(names.iter_symbols()):
            index = indices.get_symbol(number)["ndx"]
            if isinstance(index, int):
                symbols.setdefault(index & 0x7FFF, []).append(symbol.name)
    highest: dict[str, VersionNeed] = {}
    for library, versions in needs.iter_versions():
        for entry in versions:
            family, _, version = entry.name.partition("_")
            version = _NAMED.get(entry.name, version)
            if not re.fullmatch(r"\d+(\.\d+)*", version):
                continue
            if family in highest and version_key(version) <= version_key(highest[family].version):
                continue
            found = tuple(sorted(symbols.get(entry["vna_other"] & 0x7FFF, [])))
            highest[family] = VersionNeed(version=version, library=library.name, symbols=found)
    return highest


def _own_glibc() -> str | None:
    """This machine's; None where its C library is another one."""
    name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    return version if name == "glibc" else None


def check_fits(needs: ElfNeeds, target: Target, program: str) -> None:
    """Raises TargetMismatchError that names the symbol, the library and the cure."""
    if needs.architecture != target.architecture:
        raise TargetMismatchError(
            f"{program} is built for {needs.architecture}, and {target.name} is {target.architecture}",
            cure=f"Build it with `harness build --target {target.name}`.",
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
            cure=f"Build with `harness build --target {target.name} --toolchain zig`, "
            f"which links against glibc {target.glibc} and needs no libstdc++.",
        )
    if target.is_host:  # which libraries are here the self-test finds out
        return
    for library in needs.libraries:
        if _GLIBC_LIBRARIES.fullmatch(library) or (library in _GCC_LIBRARIES and target.libstdcxx):
            continue
        raise TargetMismatchError(
            f"{program} needs the library {library}, which {target.name} is not known to have",
            cure="Link it statically, or build with --toolchain zig.",
        )
