"""Runtimes that are Python packages: their wheels and Debian packages, pinned in toolchains/runtimes/, as one
archive for boards.

An archive has the packages for one Python version and machine. Beside it is a folder with the same files for
this machine and for emulated boards, which see this machine's SDKs. Real boards unpack the archive.
"""

from __future__ import annotations

import fnmatch
import hashlib
import shutil
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import console
from harness.build.elf import version_key
from harness.build.lock import exclusive
from harness.config.document import read_document
from harness.config.validation import Field, ListOf, Record, Text, from_dataclass
from harness.errors import BuildError, TargetMismatchError
from harness.file_digest import file_digest
from harness.resources import resource
from harness.sdk.debs import DEB_SHAPE, DebPin, fetch_deb, unpack_deb
from harness.sdk.layout import sdk_directory
from harness.sdk.wheels import WHEEL_SHAPE, WheelPin, fetch_wheel
from harness.temporary import fresh_folder, temporary_folder

UNPACKED = ".unpacked"  # the folder beside an archive has its name with this suffix

_WITHOUT = "**/tests/*", "*/__pycache__/*"


@dataclass(frozen=True, kw_only=True)
class Python:
    """A Python interpreter, and the system that it runs on."""

    version: str  # as 3.11
    machine: str  # x86_64 or aarch64
    glibc: str  # "": another C library

    def __str__(self) -> str:
        return f"Python {self.version} for {self.machine} with glibc {self.glibc or '(none)'}"


@dataclass(frozen=True, kw_only=True)
class Packages:
    """A runtime's wheels for all Python versions and machines."""

    version: str  # of the runtime
    wheels: tuple[WheelPin, ...]
    debs: tuple[DebPin, ...] = ()  # the runtime's own, where PyPI has no wheel of it
    without: tuple[str, ...] = ()  # patterns of files that executing a model does not need
    converter: tuple[WheelPin, ...] = ()  # those of its converter, for this machine alone

    @property
    def of_converter(self) -> Packages | None:
        """The converter's; None if the runtime has none, or the runtime's own packages contain it."""
        if not self.converter:
            return None
        return Packages(version=self.converter[0].version, wheels=self.converter)

    def fitting(self, python: Python) -> tuple[WheelPin | DebPin, ...]:
        """The packages for an interpreter. Raises TargetMismatchError without them or with an older glibc."""
        pins: tuple[WheelPin | DebPin, ...] = (*self.debs, *self.wheels)
        runtime = _named(pins[0], self)
        kind = "Debian package" if self.debs else "wheel"
        found = [pin for pin in pins if pin.python == python.version and pin.machine == python.machine]
        if not any(pin.package == pins[0].package for pin in found):
            known = sorted({f"{pin.python} ({pin.machine})" for pin in self.debs or self.wheels})
            raise TargetMismatchError(
                f"{runtime} has no pinned {kind} for Python {python.version} on {python.machine}",
                hint=f"There are {kind}s for {', '.join(known)}.",
            )
        needed = max((pin.glibc for pin in found), key=version_key)
        if not python.glibc or version_key(python.glibc) < version_key(needed):
            raise TargetMismatchError(
                f"{runtime} needs glibc {needed}, and the board has {python.glibc or 'none'}",
                hint="An older version of the runtime may fit: change its file in toolchains/runtimes.",
            )
        return tuple(found)


_SHAPE = Record(
    what="a runtime's packages",
    make=from_dataclass(Packages),
    fields={
        "version": Field(shape=Text(), help="the runtime's version", required=True),
        "wheels": Field(
            shape=ListOf(what="wheels", item=WHEEL_SHAPE),
            help="the wheels of the runtime and of what it imports, the runtime's first",
            required=True,
        ),
        "debs": Field(
            shape=ListOf(what="Debian packages", item=DEB_SHAPE),
            help="the Debian packages of the runtime, its own first, where PyPI has no wheel of it",
        ),
        "converter": Field(
            shape=ListOf(what="wheels", item=WHEEL_SHAPE),
            help="the wheels of its converter, for the host alone",
        ),
        "without": Field(
            shape=ListOf(what="patterns", item=Text()),
            help="patterns of files that executing a model does not need",
        ),
    },
)


def packages_file(runtime: str) -> Path:
    """The file with a runtime's pins."""
    return resource("toolchains", "runtimes", f"{runtime}.yaml")


def read_packages(runtime: str) -> Packages:
    """A runtime's pins. Raises ConfigurationError with file and line."""
    return _SHAPE.read(read_document(packages_file(runtime)))


def archive_for(packages: Packages, python: Python) -> Path:
    """The archive for an interpreter, made if missing: its wheels are fetched. Beside it is the folder.

    Raises TargetMismatchError as `fitting` does, and BuildError if a wheel cannot be fetched or is damaged.
    """
    pins = packages.fitting(python)
    first = _named(pins[0], packages).replace(" ", "-")
    name = f"{first}-python{python.version}-{python.machine}"
    key = hashlib.sha256(repr(("packages 1", pins, packages.without)).encode()).hexdigest()[:12]
    folder = sdk_directory() / f"{name}-{key}"
    with exclusive(sdk_directory() / "packages.lock", "another download of packages"):
        if not folder.is_dir():
            try:
                with fresh_folder(folder) as made:
                    _fill(made / f"{name}.zip", pins, packages.without)
            except OSError as error:
                raise BuildError(f"{error.filename or folder}: {error.strerror or error}") from error
    return folder / f"{name}.zip"


def _named(pin: WheelPin | DebPin, packages: Packages) -> str:
    """A package with its version: a Debian package has the runtime's."""
    return f"{pin.package} {pin.version if isinstance(pin, WheelPin) else packages.version}"


def _fill(archive: Path, pins: Sequence[WheelPin | DebPin], without: Sequence[str]) -> None:
    """Writes the archive and its folder."""
    unpacked = archive.with_name(archive.name + UNPACKED)
    for pin in pins:
        with temporary_folder("package", within=archive.parent) as fresh:
            if isinstance(pin, DebPin):
                unpack_deb(fetch_deb(pin, fresh), unpacked, lambda name: _is_wanted(name, without))
                continue
            wheel = fetch_wheel(pin, fresh)
            try:
                with zipfile.ZipFile(wheel) as file:
                    wanted = [name for name in file.namelist() if _is_wanted(name, without)]
                    file.extractall(unpacked, wanted)
            except (zipfile.BadZipFile, EOFError, ValueError) as error:
                raise BuildError(f"{wheel.name}: not a wheel: {error}") from None
    files = sorted(path for path in unpacked.rglob("*") if path.is_file())
    with (
        console.progress(f"packing {archive.name}", len(files)) as bar,
        zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=4) as file,
    ):
        for path in files:
            add_file(file, path, path.relative_to(unpacked).as_posix())
            bar.advance()


def add_file(archive: zipfile.ZipFile, path: Path, name: str) -> None:
    """Adds a file so that the same files give the same archive."""
    member = zipfile.ZipInfo(name)  # of 1980, and without the file's mode
    member.compress_type, member.external_attr = archive.compression, 0o644 << 16
    with path.open("rb") as source, archive.open(member, "w", force_zip64=True) as target:
        shutil.copyfileobj(source, target, 1 << 20)


def _is_wanted(name: str, without: Sequence[str]) -> bool:
    return not any(fnmatch.fnmatchcase(name, pattern) for pattern in (*_WITHOUT, *without))


def packages_sha256(runtime: str) -> str:
    """The hash of all pins of a runtime."""
    return file_digest(packages_file(runtime))
