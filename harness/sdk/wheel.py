"""Provider `wheel`: libtensorflow out of TensorFlow's own wheel, fetched with pip and checked. The wheel
itself is not kept."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from harness import console
from harness.build.manifest import hash_file
from harness.configuration.targets import Target
from harness.errors import BuildError
from harness.sdk.layout import FORMAT, ROOM, Plan, Sdk, provide, sdk_directory, with_includes
from harness.sdk.pin import WheelPin, read_pin

LIBRARIES = ("libtensorflow_cc.so.2", "libtensorflow_framework.so.2")
_BLOCK = 1 << 20


def tensorflow_sdk(target: Target) -> Sdk:
    """Makes the target's SDK, or finds it.

    Raises ConfigurationError for a target without one, BuildError where the wheel cannot be fetched or is
    not the pinned one or there is no room, TargetMismatchError where its libraries ask for more than the
    target has. Then nothing is left behind.
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
    with tempfile.TemporaryDirectory(prefix="wheel-", dir=folder.parent) as name:
        _unpack(_fetch(pin, Path(name)), folder)


def _fetch(pin: WheelPin, folder: Path) -> Path:
    """The pinned wheel, through pip and so through the index that this machine uses."""
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
            cure=f"pip fetches it from its index: check the network and `pip config list`. {ROOM}",
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
            members = set(archive.namelist())
            for header in with_includes(
                lambda name: f"tensorflow/include/{name}" in members,
                lambda name: archive.read(f"tensorflow/include/{name}"),
            ):
                _extract(archive, f"tensorflow/include/{header}", folder / "include" / header)
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise BuildError(f"{wheel.name}: not a whole TensorFlow wheel: {error}") from None


def _extract(archive: zipfile.ZipFile, member: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(member) as source, path.open("wb") as target:
        shutil.copyfileobj(source, target, _BLOCK)
