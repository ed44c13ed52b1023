"""A Python for arm64 boards that have none, or none that a runtime's packages are for.

It is Debian's, with its C library, from the packages that toolchains/portable_python.yaml pins. It starts by
its own loader, so it needs nothing of the board's system but the kernel. Nothing is installed on the board,
which unpacks one archive with `tar`. Beside the archive is a folder with the same files for emulated boards.
"""

from __future__ import annotations

import fnmatch
import hashlib
import re
import tarfile
from dataclasses import dataclass
from pathlib import Path

from harness import console
from harness.build.lock import exclusive
from harness.config.document import read_document
from harness.config.validation import Field, ListOf, Record, Shape, Text, from_dataclass
from harness.errors import BuildError
from harness.resources import resource
from harness.sdk.debs import DEB_SHAPE, DebPin, fetch_deb, unpack_deb
from harness.sdk.layout import sdk_directory
from harness.sdk.packages import UNPACKED, Python
from harness.temporary import fresh_folder, temporary_folder

_LIBRARIES = "lib/aarch64-linux-gnu", "usr/lib/aarch64-linux-gnu"
_LOADER = "lib/aarch64-linux-gnu/ld-linux-aarch64.so.1"
_PROGRAM = "usr/bin/python"
# Programs ask for libz.so.1; the package has libz.so.1.2.13 and a link.
_VERSIONED = re.compile(r"(?P<asked>.+\.so\.[0-9]+)\.[0-9.]+")


@dataclass(frozen=True, kw_only=True)
class PortablePython:
    """Its packages."""

    version: str  # as 3.11
    glibc: str  # that it brings
    debs: tuple[DebPin, ...]
    without: tuple[str, ...] = ()  # patterns of files that runtimes do not need

    @property
    def python(self) -> Python:
        return Python(version=self.version, machine=self.debs[0].machine, glibc=self.glibc)

    def command(self, archive: str) -> tuple[str, ...]:
        """What starts it. `archive`: its path on the board, with the unpacked folder beside it."""
        folder = archive + UNPACKED
        libraries = ":".join(f"{folder}/{name}" for name in _LIBRARIES)
        program = f"{folder}/{_PROGRAM}{self.version}"
        return (f"{folder}/{_LOADER}", "--library-path", libraries, program)


_VERSION = Text(expected='a version like "3.11"', pattern=r"[0-9]+\.[0-9]+")
_SHAPE: Shape[PortablePython] = Record(
    what="a portable Python",
    make=from_dataclass(PortablePython),
    fields={
        "version": Field(shape=_VERSION, help="version of Python", required=True),
        "glibc": Field(shape=_VERSION, help="version of the C library among the packages", required=True),
        "debs": Field(
            shape=ListOf(what="Debian packages", item=DEB_SHAPE),
            help="the Debian packages: Python's, and those of the libraries that it and the runtimes need",
            required=True,
        ),
        "without": Field(
            shape=ListOf(what="patterns", item=Text()), help="patterns of files that runtimes do not need"
        ),
    },
)


def read_portable_python() -> PortablePython:
    """Raises ConfigurationError with file and line."""
    return _SHAPE.read(read_document(resource("toolchains", "portable_python.yaml")))


def portable_archive(portable: PortablePython) -> Path:
    """Its archive, made if missing: the packages are fetched. Raises BuildError if that fails."""
    key = hashlib.sha256(repr(("portable python 1", portable)).encode()).hexdigest()[:12]
    name = f"python{portable.version}-{portable.python.machine}"
    folder = sdk_directory() / f"{name}-{key}"
    with exclusive(sdk_directory() / "python.lock", "another download of Python"):
        if not folder.is_dir():
            try:
                with fresh_folder(folder) as made:
                    _fill(made / f"{name}.tar", portable)
            except OSError as error:
                raise BuildError(f"{error.filename or folder}: {error.strerror or error}") from error
    return folder / f"{name}.tar"


def _fill(archive: Path, portable: PortablePython) -> None:
    """Writes the archive and its folder."""
    unpacked = archive.with_name(archive.name + UNPACKED)

    def is_wanted(name: str) -> bool:
        return not any(fnmatch.fnmatchcase(name, pattern) for pattern in portable.without)

    with console.progress(f"fetching Python {portable.version} for boards", len(portable.debs)) as bar:
        for pin in portable.debs:
            with temporary_folder("package", within=archive.parent) as fresh:
                unpack_deb(fetch_deb(pin, fresh), unpacked, is_wanted)
            bar.advance()
    for path in [path for folder in _LIBRARIES for path in (unpacked / folder).iterdir()]:
        if found := _VERSIONED.fullmatch(path.name):
            path.rename(path.with_name(found["asked"]))
    with tarfile.open(archive, "w") as file:
        file.add(unpacked, ".", filter=_anonymous)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """The same files give the same archive, whoever packs them."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member
