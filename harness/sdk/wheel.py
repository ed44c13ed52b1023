"""libtensorflow out of TensorFlow's own wheel: fetched with pip, checked, unpacked whole or not at all.

Layout below the cache: sdk/tensorflow-<version>-<key>/ with lib/, include/, lib/cmake/, lib/pkgconfig/ and
sdk.json, which lists every file with its size and SHA-256. The wheel itself is not kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness import console
from harness.build.elf import check_fits, read_needs
from harness.build.lock import exclusive
from harness.build.manifest import hash_file
from harness.configuration.targets import Target
from harness.errors import BuildError
from harness.resources import cache_directory
from harness.sdk.pin import WheelPin, read_pin

FORMAT = 1  # raised when what an SDK holds changes
LIBRARIES = ("libtensorflow_cc.so.2", "libtensorflow_framework.so.2")
HEADERS = ("tensorflow/c/c_api.h", "tensorflow/c/eager/c_api.h")  # and all that they include
_INCLUDE = re.compile(rb'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
_BLOCK = 1 << 20
_ROOM = "An SDK takes 1.2 GB below the cache folder while it is made; HARNESS_CACHE names another folder."

_CMAKE = """\
# find_package(TensorFlow): the C library as the imported target TensorFlow::tensorflow.
get_filename_component(_root "${{CMAKE_CURRENT_LIST_DIR}}/../../.." ABSOLUTE)
set(TensorFlow_VERSION {version})
if(NOT TARGET TensorFlow::tensorflow)
  add_library(TensorFlow::framework SHARED IMPORTED)
  set_target_properties(TensorFlow::framework PROPERTIES
    IMPORTED_LOCATION "${{_root}}/lib/{framework}" IMPORTED_SONAME {framework})
  add_library(TensorFlow::tensorflow SHARED IMPORTED)
  set_target_properties(TensorFlow::tensorflow PROPERTIES
    IMPORTED_LOCATION "${{_root}}/lib/{library}" IMPORTED_SONAME {library}
    INTERFACE_INCLUDE_DIRECTORIES "${{_root}}/include"
    INTERFACE_LINK_LIBRARIES TensorFlow::framework)
endif()
"""
_PKG_CONFIG = """\
prefix=${{pcfiledir}}/../..
Name: tensorflow
Description: TensorFlow's C library, out of its wheel
Version: {version}
Libs: -L${{prefix}}/lib -l:{library} -l:{framework}
Cflags: -I${{prefix}}/include
"""


@dataclass(frozen=True, kw_only=True)
class Sdk:
    """A finished SDK."""

    folder: Path
    version: str
    files: dict[str, int]  # path below the folder -> bytes
    glibc_needed: str
    seconds: float
    cached: bool


def tensorflow_sdk(target: Target) -> Sdk:
    """Makes the target's SDK, or finds it.

    Raises ConfigurationError for a target without one, BuildError where the wheel cannot be fetched or is
    not the pinned one or there is no room, TargetMismatchError where its libraries ask for more than the
    target has. Then nothing is left behind.
    """
    started = time.monotonic()
    pin = read_pin(target)
    parent = cache_directory() / "sdk"
    folder = parent / f"tensorflow-{pin.version}-{_key(pin)}"
    with exclusive(parent / "lock", "another harness that makes an SDK"), _room(parent):
        cached = _is_whole(folder)
        if not cached:
            _make(pin, target, folder)
    record = json.loads((folder / "sdk.json").read_text(encoding="utf-8"))
    needs = [read_needs(folder / "lib" / name) for name in LIBRARIES]
    for name, need in zip(LIBRARIES, needs, strict=True):  # a cached SDK was perhaps made for another target
        check_fits(need, target, name, beside=LIBRARIES)
    return Sdk(
        folder=folder,
        version=pin.version,
        files={name: entry["bytes"] for name, entry in record["files"].items()},
        glibc_needed=record["glibc_needed"],
        seconds=time.monotonic() - started,
        cached=cached,
    )


def _key(pin: WheelPin) -> str:
    return hashlib.sha256(f"{FORMAT} {pin.sha256}".encode()).hexdigest()[:12]


@contextlib.contextmanager
def _room(parent: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BuildError(
            f"{error.filename or parent}: {error.strerror or error}",
            cure=_ROOM,
        ) from error


def _is_whole(folder: Path) -> bool:
    """Whether every file is there in its size: hashes of 900 MB would be read again at every call."""
    try:
        record = json.loads((folder / "sdk.json").read_text(encoding="utf-8"))
        return all(
            (folder / name).stat().st_size == entry["bytes"] for name, entry in record["files"].items()
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _make(pin: WheelPin, target: Target, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".making-", dir=folder.parent) as name:
        work = Path(name)
        wheel = _fetch(pin, work / "wheel")
        fresh = work / "sdk"
        _unpack(wheel, fresh)
        wheel.unlink()
        highest = ""
        for library in LIBRARIES:
            needs = read_needs(fresh / "lib" / library)
            check_fits(needs, target, library, beside=LIBRARIES)
            highest = max(
                highest, needs.glibc, key=lambda text: [int(part) for part in text.split(".") if part]
            )
        _write_config(pin, fresh)
        files = sorted(path for path in fresh.rglob("*") if path.is_file())
        record = {
            "format": FORMAT,
            "tensorflow": pin.version,
            "platform": pin.platform,
            "wheel_sha256": pin.sha256,
            "glibc_needed": highest,
            "files": {
                path.relative_to(fresh).as_posix(): {"bytes": path.stat().st_size, "sha256": hash_file(path)}
                for path in files
            },
        }
        (fresh / "sdk.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)


def _fetch(pin: WheelPin, folder: Path) -> Path:
    """The pinned wheel, through pip and so through the index that this machine uses."""
    folder.mkdir()
    words = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    words += ["--only-binary=:all:", "--no-cache-dir", "--python-version", pin.python]
    words += ["--platform", pin.platform, "--dest", str(folder), f"{pin.package}=={pin.version}"]
    with console.progress(f"fetching {pin.package} {pin.version} for {pin.platform} (0.3 GB)", None):
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            stdin=subprocess.DEVNULL,
            env=os.environ | {"TMPDIR": str(folder)},
        )
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
        # A line of its own says what is wrong, or the last one of a traceback.
        reasons = [line for line in lines if line.startswith("ERROR:") and line != "ERROR: Exception:"]
        raise BuildError(
            f"{pin.package} {pin.version} for {pin.platform} cannot be fetched: "
            f"{(reasons or lines)[-1].strip()}",
            cure=f"pip fetches it from its index: check the network and `pip config list`. {_ROOM}",
        )
    found = hash_file(wheels[0])
    if found != pin.sha256:
        raise BuildError(
            f"{wheels[0].name}: the SHA-256 is {found}, and the pinned wheel's is {pin.sha256}",
            cure="The download was damaged, or the index serves another file: try again, or another index.",
        )
    return wheels[0]


def _unpack(wheel: Path, folder: Path) -> None:
    """Libraries and headers. Raises BuildError where the archive is damaged or lacks one."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            for library in LIBRARIES:
                with console.progress(f"unpacking {library}", None):
                    _extract(archive, f"tensorflow/{library}", folder / "lib" / library)
            for header in _with_includes(archive):
                _extract(archive, f"tensorflow/include/{header}", folder / "include" / header)
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise BuildError(f"{wheel.name}: not a whole TensorFlow wheel: {error}") from None


def _extract(archive: zipfile.ZipFile, member: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(member) as source, path.open("wb") as target:
        shutil.copyfileobj(source, target, _BLOCK)


def _with_includes(archive: zipfile.ZipFile) -> list[str]:
    """HEADERS and every header of the wheel that they include, directly or not."""
    present = set(archive.namelist())
    waiting, found = list(HEADERS), set(HEADERS)
    while waiting:
        text = archive.read(f"tensorflow/include/{waiting.pop()}")
        for match in _INCLUDE.findall(text):
            name = match.decode("utf-8", "replace")
            if name not in found and f"tensorflow/include/{name}" in present:
                found.add(name)
                waiting.append(name)
    return sorted(found)


def _write_config(pin: WheelPin, folder: Path) -> None:
    values = {"version": pin.version, "library": LIBRARIES[0], "framework": LIBRARIES[1]}
    for name, text in (
        ("cmake/TensorFlow/TensorFlowConfig.cmake", _CMAKE),
        ("pkgconfig/tensorflow.pc", _PKG_CONFIG),
    ):
        path = folder / "lib" / name
        path.parent.mkdir(parents=True)
        path.write_text(text.format(**values), encoding="utf-8")
