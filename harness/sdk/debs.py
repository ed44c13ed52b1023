"""Debian packages, pinned by their hash, from the archive of base images. Nothing is installed."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness import console
from harness.config.validation import Field, Record, Text, from_dataclass
from harness.errors import BuildError
from harness.file_digest import file_digest
from harness.images.bootstrap import MIRROR

_SECONDS = 60.0  # without an answer
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
# Where Debian has Python packages: they are moved to the archive's root, where Python finds them.
_PYTHON = "usr/lib/python3/dist-packages/"
# The licence has to accompany the files.
_KEPT = (_PYTHON, "lib/", "usr/lib/", "usr/bin/", "usr/share/doc/")


@dataclass(frozen=True, kw_only=True)
class DebPin:
    """One Debian package."""

    package: str
    path: str  # in the archive
    python: str  # the version of the release's Python
    glibc: str  # the oldest that it runs with
    sha256: str

    @property
    def machine(self) -> str:
        return _MACHINES.get(self.path.removesuffix(".deb").rpartition("_")[2], "")


DEB_SHAPE: Record[DebPin] = Record(
    what="a Debian package",
    make=from_dataclass(DebPin),
    fields={
        "package": Field(shape=Text(pattern=r"[a-z0-9+.-]+"), help="the package's name", required=True),
        "path": Field(
            shape=Text(pattern=r"pool/[A-Za-z0-9+._~/-]+\.deb"), help="its file in the archive", required=True
        ),
        "python": Field(shape=Text(pattern=r"3\.\d+"), help="the release's Python", required=True),
        "glibc": Field(shape=Text(pattern=r"2\.\d+"), help="the oldest glibc for it", required=True),
        "sha256": Field(shape=Text(pattern=r"[0-9a-f]{64}"), help="its SHA-256", required=True),
    },
)


def fetch_deb(pin: DebPin, folder: Path) -> Path:
    """Downloads a package into a folder. Raises BuildError if that fails or it is not the pinned one."""
    path = folder / Path(pin.path).name
    try:
        with (
            console.progress(f"fetching {pin.package} for {pin.machine}", None),
            urllib.request.urlopen(f"{MIRROR}/{pin.path}", timeout=_SECONDS) as source,
            path.open("wb") as target,
        ):
            shutil.copyfileobj(source, target, 1 << 20)
    except OSError as error:  # urllib's too
        raise BuildError(
            f"{pin.path} cannot be fetched: {error}",
            hint=f"Check the network. Debian's archive is {MIRROR}.",
        ) from None
    found = file_digest(path)
    if found != pin.sha256:
        raise BuildError(
            f"{path.name}: the SHA-256 is {found}, not {pin.sha256} as pinned",
            hint="The download is damaged, or the archive serves another file: try again.",
        )
    return path


def unpack_deb(deb: Path, folder: Path, is_wanted: Callable[[str], bool]) -> None:
    """Unpacks a package's Python files, programs, libraries and licence without links. Raises BuildError."""
    contents = deb.with_suffix(".tar")
    try:
        with contents.open("wb") as target:
            done = subprocess.run(
                ["dpkg-deb", "--fsys-tarfile", str(deb)], stdout=target, stderr=subprocess.PIPE, check=False
            )
    except FileNotFoundError:
        raise BuildError("dpkg-deb is not installed", hint="Install the package dpkg.") from None
    if done.returncode != 0:
        raise BuildError(f"{deb.name}: {done.stderr.decode(errors='replace').strip()}")
    with tarfile.open(contents) as archive:
        for member in archive:
            name = member.name.removeprefix("./")
            if not member.isfile() or not name.startswith(_KEPT):
                continue
            member.name = name.removeprefix(_PYTHON)
            if is_wanted(member.name):
                archive.extract(member, folder, filter="data")
