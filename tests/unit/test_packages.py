"""Archives of a runtime's packages, from made-up wheels."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from harness.errors import BuildError
from harness.sdk import packages
from harness.sdk.packages import UNPACKED, Packages, Python, archive_for
from harness.sdk.wheels import WheelPin

BOARD = Python(version="3.11", machine="aarch64", glibc="2.36")
FILES = {
    "runtime/__init__.py": b"x = 1\n",
    "runtime/native.so": bytes(100_000),
    "runtime/tests/test_x.py": b"",
    "runtime/tools/convert.py": b"",
    "runtime.dist-info/METADATA": b"Name: runtime\n",
}


def pin(package: str, platform: str = "manylinux_2_28_aarch64", python: str = "3.11") -> WheelPin:
    return WheelPin(package=package, version="1.2.3", python=python, platform=platform, sha256="0" * 64)


def runtime(*, without: tuple[str, ...] = ("runtime/tools/*",)) -> Packages:
    wheels = (pin("runtime"), pin("numpy", "manylinux_2_17_aarch64"), pin("runtime", "manylinux_2_28_x86_64"))
    return Packages(version="1.2.3", wheels=wheels, without=without)


@pytest.fixture(autouse=True)
def fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The packages that were fetched."""
    found: list[str] = []

    def fetch(wheel: WheelPin, folder: Path) -> Path:
        found.append(wheel.package)
        path = folder / f"{wheel.package}.whl"
        with zipfile.ZipFile(path, "w") as file:
            for name, data in FILES.items():
                file.writestr(name.replace("runtime", wheel.package, 1), data)
        return path

    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(packages, "fetch_wheel", fetch)
    return found


def test_an_archive_has_what_executing_needs_and_is_made_once(fetched: list[str]) -> None:
    archive = archive_for(runtime(), BOARD)
    assert archive_for(runtime(), BOARD) == archive
    assert fetched == ["runtime", "numpy"]
    with zipfile.ZipFile(archive) as file:
        names = file.namelist()
        assert file.read("runtime/native.so") == bytes(100_000)
    assert "runtime/__init__.py" in names
    assert "numpy/tools/convert.py" in names
    assert not [name for name in names if "tests" in name or name.startswith("runtime/tools")]
    folder = archive.with_name(archive.name + UNPACKED)
    assert sorted(names) == sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )
    assert archive_for(runtime(without=()), BOARD).parent != archive.parent  # other content


def test_the_same_wheels_give_the_same_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = archive_for(runtime(), BOARD).read_bytes()
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "another"))
    assert archive_for(runtime(), BOARD).read_bytes() == first


def test_a_wheel_that_cannot_be_fetched_or_read_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(wheel: WheelPin, folder: Path) -> Path:
        raise BuildError(f"{wheel.package} cannot be fetched")

    def damaged(wheel: WheelPin, folder: Path) -> Path:
        path = folder / "x.whl"
        path.write_bytes(b"PK\x03\x04 no archive")
        return path

    for fetch, message in ((refuse, "runtime cannot be fetched"), (damaged, "x.whl: not a wheel")):
        monkeypatch.setattr(packages, "fetch_wheel", fetch)
        with pytest.raises(BuildError, match=message):
            archive_for(runtime(), BOARD)
        assert [path.name for path in (tmp_path / "cache" / "sdk").iterdir()] == ["packages.lock"]
