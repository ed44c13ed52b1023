"""The layout of an SDK, the same for all providers.

Below the cache: sdk/tensorflow-<version>-<key>/ with lib/, include/, lib/cmake/, lib/pkgconfig/ and sdk.json,
which lists every file with its size and SHA-256. The folder gets this name only when it is complete.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.build.elf import check_fits, read_needs, version_key
from harness.build.lock import exclusive
from harness.config.targets import Target
from harness.errors import BuildError
from harness.file_digest import file_digest
from harness.resources import cache_directory
from harness.temporary import fresh_folder

FORMAT = 1  # to be increased when the content of an SDK changes
HEADERS = ("tensorflow/c/c_api.h", "tensorflow/c/eager/c_api.h")  # and all that they include
ROOM = "An SDK takes 1.2 GB in the cache folder; set HARNESS_CACHE to use another folder."
_INCLUDE = re.compile(rb'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)

_CMAKE_HEAD = """\
# find_package(TensorFlow): the C library as the imported target TensorFlow::tensorflow.
get_filename_component(_root "${{CMAKE_CURRENT_LIST_DIR}}/../../.." ABSOLUTE)
set(TensorFlow_VERSION {version})
if(NOT TARGET TensorFlow::tensorflow)
"""
_CMAKE_FRAMEWORK = """\
  add_library(TensorFlow::framework SHARED IMPORTED)
  set_target_properties(TensorFlow::framework PROPERTIES
    IMPORTED_LOCATION "${{_root}}/lib/{framework}" IMPORTED_SONAME {framework})
"""
_CMAKE_LIBRARY = """\
  add_library(TensorFlow::tensorflow SHARED IMPORTED)
  set_target_properties(TensorFlow::tensorflow PROPERTIES
    IMPORTED_LOCATION "${{_root}}/lib/{library}" IMPORTED_SONAME {library}
    INTERFACE_INCLUDE_DIRECTORIES "${{_root}}/include"{links})
endif()
"""
_CMAKE_LINKS = "\n    INTERFACE_LINK_LIBRARIES TensorFlow::framework"
_PKG_CONFIG = """\
prefix=${{pcfiledir}}/../..
Name: tensorflow
Description: TensorFlow's C library, {origin}
Version: {version}
Libs: -L${{prefix}}/lib {libraries}
Cflags: -I${{prefix}}/include
"""


@dataclass(frozen=True, kw_only=True)
class Sdk:
    """A finished SDK."""

    folder: Path
    provider: str
    version: str
    files: dict[str, int]  # path below the folder -> bytes
    glibc_needed: str
    seconds: float
    cached: bool


@dataclass(frozen=True, kw_only=True)
class Plan:
    """An SDK that may not exist yet."""

    provider: str
    version: str
    key: str  # a hash of its inputs
    libraries: tuple[str, ...]  # the C library, then its dependencies
    origin: str  # in half a sentence, for pkg-config
    record: Mapping[str, object]  # the origin in sdk.json
    room: str = ROOM  # the hint if the disk is full

    @property
    def folder(self) -> Path:
        return sdk_directory() / f"tensorflow-{self.version}-{self.key}"


def sdk_directory() -> Path:
    return cache_directory() / "sdk"


def provide(plan: Plan, target: Target, lock: Path, fill: Callable[[Path], None]) -> Sdk:
    """Finds or builds the SDK: `fill` writes lib/ and include/ into the given folder.

    Raises BuildError if the disk is full, TargetMismatchError if the libraries need more than the target has,
    and the errors of `fill`. No SDK is left behind then.
    """
    started = time.monotonic()
    with exclusive(lock, "another harness, which builds an SDK"), _room(plan):
        cached = _is_whole(plan.folder)
        if not cached:
            _make(plan, target, fill)
    record = json.loads((plan.folder / "sdk.json").read_text(encoding="utf-8"))
    if cached:  # perhaps made for another target
        _check_libraries(plan, plan.folder, target)
    return Sdk(
        folder=plan.folder,
        provider=plan.provider,
        version=plan.version,
        files={name: entry["bytes"] for name, entry in record["files"].items()},
        glibc_needed=record["glibc_needed"],
        seconds=time.monotonic() - started,
        cached=cached,
    )


@contextlib.contextmanager
def _room(plan: Plan) -> Iterator[None]:
    """Turns errors of files, such as a full disk, into BuildError."""
    try:
        yield
    except OSError as error:
        where = error.filename or plan.folder.parent
        raise BuildError(f"{where}: {error.strerror or error}", hint=plan.room) from error


def with_includes(present: Callable[[str], bool], read: Callable[[str], bytes]) -> list[str]:
    """HEADERS and every header that is present and that they include, directly or not."""
    waiting, found = list(HEADERS), set(HEADERS)
    while waiting:
        for match in _INCLUDE.findall(read(waiting.pop())):
            name = match.decode("utf-8", "replace")
            if name not in found and present(name):
                found.add(name)
                waiting.append(name)
    return sorted(found)


def _is_whole(folder: Path) -> bool:
    """Whether every file has its size. Hashes are not checked: that would read 900 MB in every call."""
    try:
        record = json.loads((folder / "sdk.json").read_text(encoding="utf-8"))
        return all(
            (folder / name).stat().st_size == entry["bytes"] for name, entry in record["files"].items()
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _make(plan: Plan, target: Target, fill: Callable[[Path], None]) -> None:
    with fresh_folder(plan.folder, replace=True) as fresh:
        fill(fresh)
        glibc = _check_libraries(plan, fresh, target)
        _write_config(plan, fresh)
        files = sorted(path for path in fresh.rglob("*") if path.is_file())
        record = {
            "format": FORMAT,
            "tensorflow": plan.version,
            "provider": plan.provider,
            **plan.record,
            "glibc_needed": glibc,
            "files": {
                path.relative_to(fresh).as_posix(): {
                    "bytes": path.stat().st_size,
                    "sha256": file_digest(path),
                }
                for path in files
            },
        }
        (fresh / "sdk.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _check_libraries(plan: Plan, folder: Path, target: Target) -> str:
    """The glibc that the libraries need. Raises TargetMismatchError if one does not fit the target."""
    highest = "0"
    for library in plan.libraries:
        needs = read_needs(folder / "lib" / library)
        check_fits(needs, target, library, beside=plan.libraries)
        highest = max(highest, needs.glibc or "0", key=version_key)
    return highest


def _write_config(plan: Plan, folder: Path) -> None:
    """Files for CMake and pkg-config. A monolithic library has no framework beside it."""
    library, *rest = plan.libraries
    cmake = _CMAKE_HEAD + "".join(_CMAKE_FRAMEWORK for _ in rest) + _CMAKE_LIBRARY
    values = {
        "version": plan.version,
        "library": library,
        "framework": "".join(rest),
        "links": _CMAKE_LINKS if rest else "",
        "origin": plan.origin,
        "libraries": " ".join(f"-l:{name}" for name in plan.libraries),
    }
    for name, text in (
        ("cmake/TensorFlow/TensorFlowConfig.cmake", cmake),
        ("pkgconfig/tensorflow.pc", _PKG_CONFIG),
    ):
        path = folder / "lib" / name
        path.parent.mkdir(parents=True)
        path.write_text(text.format(**values), encoding="utf-8")
