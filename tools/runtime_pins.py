"""Pins the wheels of a runtime in toolchains/runtimes/: those of the newest version, or of a given one.

python -m tools.runtime_pins onnxruntime [VERSION]

TensorFlow's library is pinned in toolchains/tensorflow/, and its version there; its wheels are NumPy's alone.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from harness.config.targets import load_target
from harness.file_digest import file_digest
from harness.sdk.packages import packages_file
from harness.sdk.pin import read_pin
from harness.temporary import temporary_folder

PACKAGES = {
    "litert": "ai-edge-litert",
    "mnn": "mnn",
    "ncnn": "ncnn",
    "onnxruntime": "onnxruntime",
    "openvino": "openvino",
}
NUMPY_ALONE = ("tensorflow",)
CONVERTERS = {"ncnn": "pnnx"}  # the newest, where the package has none
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
MACHINES = ("x86_64", "aarch64")
_GLIBCS = (17, 24, 26, 27, 28, 31, 34, 35)  # 2.x of the tags that wheels have
_WHEEL = re.compile(
    r"[^-]+-(?P<version>[^-]+)(-[0-9]+)?-[^-]+-[^-]+-([a-z0-9_]+\.)*?"
    r"(?P<platform>manylinux_[0-9]+_[0-9]+_[a-z0-9_]+)"
)


def pin(package: str, version: str, python: str, machine: str) -> tuple[str, str] | None:
    """The wheel's version and a line with its pin; None if there is no such wheel."""
    with temporary_folder("pin") as folder:
        words = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        words += ["--python-version", python, "--dest", str(folder)]
        words += [f"--platform=manylinux_2_{glibc}_{machine}" for glibc in _GLIBCS]
        subprocess.run([*words, f"{package}=={version}" if version else package], check=False)
        wheel = next(folder.glob("*.whl"), None)
        found = _WHEEL.match(wheel.name) if wheel else None
        if wheel is None or found is None:
            return None
        line = (
            f'  - {{package: {package}, version: {found["version"]}, python: "{python}", '
            f"platform: {found['platform']}, sha256: {file_digest(wheel)}}}\n"
        )
        return found["version"], line


def main(runtime: str, version: str = "") -> None:
    """Rewrites the file of a runtime."""
    if runtime not in (*PACKAGES, *NUMPY_ALONE):
        sys.exit(f"{runtime}: no such runtime; known are {', '.join(sorted((*PACKAGES, *NUMPY_ALONE)))}")
    if runtime in NUMPY_ALONE:
        pinned = read_pin(load_target("host")).version
        if version not in ("", pinned):
            sys.exit(f"{runtime} {version}: toolchains/tensorflow/ pins {pinned} for this machine")
        version = pinned
    path: Path = packages_file(runtime)
    lines, converter = [], []
    for python in PYTHONS:
        for machine in MACHINES:
            own = PACKAGES.get(runtime)
            found = pin(own, version, python, machine) if own else (version, "")
            numpy = pin("numpy", "", python, machine) if found else None
            if found and numpy:
                version = version or found[0]
                lines += [found[1], numpy[1]]
                if (name := CONVERTERS.get(runtime)) and (made := pin(name, "", python, machine)):
                    converter.append(made[1])
    if not lines:
        sys.exit(f"{runtime} {version}: no wheels")
    head = path.read_text(encoding="utf-8").partition("version:")[0]
    tail = f"converter:\n{''.join(converter)}" if converter else ""
    path.write_text(f'{head}version: "{version}"\nwheels:\n{"".join(lines)}{tail}', encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
