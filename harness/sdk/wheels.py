"""Wheels of PyPI, pinned by their hash. pip fetches them, through the index that this machine uses."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from harness import console
from harness.config.validation import Field, Record, Text, from_dataclass
from harness.errors import BuildError
from harness.file_digest import file_digest

_PLATFORM = re.compile(r"manylinux_(?P<glibc>[0-9]+_[0-9]+)_(?P<machine>[a-z0-9_]+)")


@dataclass(frozen=True, kw_only=True)
class WheelPin:
    """One wheel."""

    package: str
    version: str
    python: str  # the version it is for
    platform: str  # as in the wheel's name
    sha256: str

    @property
    def machine(self) -> str:
        found = _PLATFORM.fullmatch(self.platform)
        return found["machine"] if found else ""

    @property
    def glibc(self) -> str:
        """The oldest that it runs with."""
        found = _PLATFORM.fullmatch(self.platform)
        return found["glibc"].replace("_", ".") if found else "0"


WHEEL_SHAPE: Record[WheelPin] = Record(
    what="a wheel",
    make=from_dataclass(WheelPin),
    fields={
        "package": Field(shape=Text(pattern=r"[a-z-]+"), help="the package's name", required=True),
        "version": Field(shape=Text(pattern=r"\d+(\.\d+)*"), help="its version", required=True),
        "python": Field(shape=Text(pattern=r"3\.\d+"), help="the wheel's Python", required=True),
        "platform": Field(shape=Text(pattern=r"[a-z0-9_]+"), help="the wheel's platform", required=True),
        "sha256": Field(shape=Text(pattern=r"[0-9a-f]{64}"), help="the wheel's SHA-256", required=True),
    },
)


def fetch_wheel(pin: WheelPin, folder: Path, *, room: str = "") -> Path:
    """Downloads a wheel into an empty folder; `room` is the hint about disk space for errors.

    Raises BuildError if the download fails or is not the pinned wheel.
    """
    words = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    words += ["--only-binary=:all:", "--no-cache-dir", "--python-version", pin.python]
    words += ["--platform", pin.platform, "--dest", str(folder), f"{pin.package}=={pin.version}"]
    with console.progress(f"fetching {pin.package} {pin.version} for {pin.platform}", None):
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
        # The reason is an error line of pip, or the last line of a traceback.
        reasons = [line for line in lines if line.startswith("ERROR:") and line != "ERROR: Exception:"]
        raise BuildError(
            f"{pin.package} {pin.version} for {pin.platform} cannot be fetched: "
            f"{(reasons or lines)[-1].strip()}",
            hint=f"Check the network and the package index (`pip config list`). {room}".strip(),
        )
    found = file_digest(wheels[0])
    if found != pin.sha256:
        raise BuildError(
            f"{wheels[0].name}: the SHA-256 is {found}, not {pin.sha256} as pinned",
            hint="The download is damaged, or the index serves another file: try again or use another index.",
        )
    return wheels[0]
