"""Provider `wheel`: libtensorflow from TensorFlow's wheel, fetched with pip and checked. The wheel
itself is not kept."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from pathlib import Path

from harness import console
from harness.config.targets import Target
from harness.errors import BuildError
from harness.sdk.layout import FORMAT, ROOM, Plan, Sdk, provide, sdk_directory, with_includes
from harness.sdk.pin import read_pin
from harness.sdk.wheels import WheelPin, fetch_wheel
from harness.temporary import temporary_folder

LIBRARIES = ("libtensorflow_cc.so.2", "libtensorflow_framework.so.2")
_BLOCK = 1 << 20


def tensorflow_sdk(target: Target) -> Sdk:
    """Finds the target's SDK, or makes it.

    Raises ConfigurationError for a target without one, BuildError if the wheel cannot be fetched, is not the
    pinned one or the disk is full, TargetMismatchError if its libraries need more than the target has. No
    files are left behind then.
    """
    pin = read_pin(target)
    plan = Plan(
        provider="wheel",
        version=pin.version,
        key=hashlib.sha256(f"{FORMAT} {pin.sha256}".encode()).hexdigest()[:12],
        libraries=LIBRARIES,
        origin="out of its wheel",
        record={"platform": pin.platform, "wheel_sha256": pin.sha256},
    )
    return provide(plan, target, sdk_directory() / "lock", lambda folder: _fill(pin, folder))


def _fill(pin: WheelPin, folder: Path) -> None:
    with temporary_folder("wheel", within=folder.parent) as fresh:
        _unpack(fetch_wheel(pin, fresh, room=ROOM), folder)


def _unpack(wheel: Path, folder: Path) -> None:
    """Libraries and headers. Raises BuildError if the archive is damaged or incomplete."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            for library in LIBRARIES:
                with console.progress(f"unpacking {library}", None):
                    _extract(archive, f"tensorflow/{library}", folder / "lib" / library)
            members = set(archive.namelist())
            for header in with_includes(
                lambda name: f"tensorflow/include/{name}" in members,
                lambda name: archive.read(f"tensorflow/include/{name}"),
            ):
                _extract(archive, f"tensorflow/include/{header}", folder / "include" / header)
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise BuildError(f"{wheel.name}: not a complete TensorFlow wheel: {error}") from None


def _extract(archive: zipfile.ZipFile, member: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(member) as source, path.open("wb") as target:
        shutil.copyfileobj(source, target, _BLOCK)
