"""The gate that reads a program's needs and compares them with what its target has."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.build.elf import ElfNeeds, VersionNeed, check_fits, read_needs, version_key
from harness.config.targets import Target, host_architecture
from harness.errors import BuildError, TargetMismatchError

NANO = Target(name="nano", description="a board", architecture="aarch64", glibc="2.27", libstdcxx="3.4.25")


def needs(
    *,
    architecture: str = "aarch64",
    libraries: tuple[str, ...] = ("libc.so.6", "libm.so.6", "ld-linux-aarch64.so.1"),
    glibc: str = "2.27",
    glibcxx: str | None = None,
) -> ElfNeeds:
    versions = {"GLIBC": VersionNeed(version=glibc, library="libc.so.6", symbols=("pthread_create",))}
    if glibcxx:
        versions["GLIBCXX"] = VersionNeed(version=glibcxx, library="libstdc++.so.6")
    return ElfNeeds(architecture=architecture, libraries=libraries, versions=versions)


def test_a_real_programs_needs_are_read() -> None:
    python = read_needs(Path(sys.executable).resolve())
    assert python.architecture == host_architecture()
    assert "libc.so.6" in python.libraries
    assert version_key("2.2") < version_key(python.glibc) < version_key("9")
    assert python.versions["GLIBC"].symbols


def test_a_program_fits_if_the_target_has_its_versions() -> None:
    check_fits(needs(), NANO, "mpe")
    check_fits(needs(glibcxx="3.4.25"), NANO, "mpe")


def test_versions_are_compared_as_numbers() -> None:
    check_fits(needs(glibc="2.4"), NANO, "mpe")
    with pytest.raises(TargetMismatchError):
        check_fits(needs(glibc="2.100"), NANO, "mpe")


def test_a_newer_glibc_is_refused_with_symbol_library_and_hint() -> None:
    with pytest.raises(TargetMismatchError) as caught:
        check_fits(needs(glibc="2.34"), NANO, "mpe")
    for part in ("2.34", "pthread_create", "libc.so.6", "nano has 2.27", "--toolchain zig"):
        assert part in str(caught.value)
    assert caught.value.exit_status == 4


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (needs(architecture="x86_64"), "built for x86_64"),
        (needs(glibcxx="3.4.30"), "GLIBCXX 3.4.30"),
        (needs(libraries=("libc.so.6", "libtensorflow.so.2")), "libtensorflow.so.2"),
    ],
)
def test_other_mismatches_are_refused(wrong: ElfNeeds, message: str) -> None:
    with pytest.raises(TargetMismatchError, match=message):
        check_fits(wrong, NANO, "mpe")


def test_libstdcxx_is_refused_where_the_target_is_not_known_to_have_it() -> None:
    bare = Target(name="bare", description="a board", architecture="aarch64", glibc="2.31")
    with pytest.raises(TargetMismatchError, match=r"libstdc\+\+"):
        check_fits(needs(libraries=("libc.so.6", "libstdc++.so.6")), bare, "mpe")


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\n", b"\x7fELF\x02\x01\x01"])
def test_a_file_that_is_not_a_program_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "mpe"
    file.write_bytes(content)
    with pytest.raises(BuildError, match="cannot be read as a program"):
        read_needs(file)
