"""Pins of runtimes, without the network: what a registry has is scripted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.config.document import read_document
from harness.config.targets import load_target
from harness.sdk import packages
from harness.sdk.pin import read_pin
from tools import runtime_pins

HASH = "0" * 64


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the runtime `tensorflow`, a copy, and a registry with two wheels of NumPy."""
    path = tmp_path / "tensorflow.yaml"
    shutil.copy(packages.packages_file("tensorflow"), path)

    def pin(package: str, version: str, python: str, machine: str) -> tuple[str, str] | None:
        if python != "3.12":
            return None
        line = f'  - {{package: {package}, version: 9.8.7, python: "{python}", '
        return "9.8.7", f"{line}platform: manylinux_2_27_{machine}, sha256: {HASH}}}\n"

    monkeypatch.setattr(runtime_pins, "pin", pin)
    monkeypatch.setattr(runtime_pins, "packages_file", lambda _: path)
    return path


def test_tensorflow_has_the_version_of_its_library_and_wheels_of_numpy(file: Path) -> None:
    before = file.read_text()
    runtime_pins.main("tensorflow")
    found = packages._SHAPE.read(read_document(file))
    assert found.version == read_pin(load_target("host")).version
    assert [(wheel.package, wheel.version, wheel.platform) for wheel in found.wheels] == [
        ("numpy", "9.8.7", "manylinux_2_27_x86_64"),
        ("numpy", "9.8.7", "manylinux_2_27_aarch64"),
    ]
    assert file.read_text().partition("version:")[0] == before.partition("version:")[0]


def test_another_runtime_has_wheels_of_its_own_beside_numpys(file: Path) -> None:
    runtime_pins.main("litert")
    found = packages._SHAPE.read(read_document(file))
    assert found.version == "9.8.7"
    assert [wheel.package for wheel in found.wheels] == 2 * ["ai-edge-litert", "numpy"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("tensorflow", "1.15.0"), r"tensorflow 1.15.0: toolchains/tensorflow/ pins .* for this machine"),
        (("armnn",), "armnn: no such runtime; known are litert, .*, tensorflow"),
    ],
)
def test_what_it_cannot_pin_is_refused(words: tuple[str, ...], said: str, file: Path) -> None:
    before = file.read_text()
    with pytest.raises(SystemExit, match=said):
        runtime_pins.main(*words)
    assert file.read_text() == before
