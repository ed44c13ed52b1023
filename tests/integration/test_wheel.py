"""An installed `harness` needs no checkout: the wheel carries the engine, the targets and the model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from harness import __version__

pytestmark = pytest.mark.engine
REPOSITORY = Path(__file__).resolve().parents[2]


def run(*words: str | Path, folder: Path) -> str:
    # Nothing of the checkout may be found by accident: not by the path, not by the working directory.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("release")
    run(sys.executable, "-m", "build", "--outdir", folder, REPOSITORY, folder=folder)
    return folder


@pytest.fixture(scope="module")
def wheel(release: Path) -> Path:
    (built,) = release.glob("harness-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of a new environment that holds the wheel, and the tests' dependencies."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    bin_folder = folder / "bin"
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", bin_folder / "python"]
    run(*pip, "install", "--quiet", "--no-deps", wheel, folder=folder)
    # Path entries of a .pth file come after the environment's own packages, and .pth files in them are not
    # read: the wheel's harness is found, and a checkout that is installed for editing is not.
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    own = run(bin_folder / "python", "-c", code, folder=folder)
    Path(own.strip(), "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return bin_folder


@pytest.fixture(scope="module")
def resources(installed: Path) -> Path:
    code = "from harness.resources import resource; print(resource())"
    return Path(run(installed / "python", "-c", code, folder=installed).strip())


def test_the_wheel_holds_what_is_needed_and_nothing_else(wheel: Path) -> None:
    names = ZipFile(wheel).namelist()
    for part in (
        "engine/CMakeLists.txt",
        "toolchains/zig.cmake",
        "toolchains/checks/checks.yaml",
        "toolchains/checks/half_precision.c",
        "device_images/pi4/image.yaml",
    ):
        assert f"harness/_resources/{part}" in names
    assert "harness/_resources/cfg/sweeps/quickstart.yaml" in names
    assert not [name for name in names if "__pycache__" in name or name.startswith("tests/")]
    assert wheel.stat().st_size < 10 << 20


def test_a_package_index_would_accept_the_release(release: Path) -> None:
    files = sorted(release.iterdir())
    assert [file.name for file in files] == [
        f"harness-{__version__}-py3-none-any.whl",
        f"harness-{__version__}.tar.gz",
    ]
    run(sys.executable, "-m", "twine", "check", "--strict", *files, folder=release)


def test_the_installed_harness_is_not_the_checkout(resources: Path) -> None:
    assert not resources.is_relative_to(REPOSITORY)
    assert (resources / "engine" / "CMakeLists.txt").is_file()


def test_it_builds_the_engine_and_evaluates_the_model_that_ships(
    installed: Path, resources: Path, tmp_path: Path
) -> None:
    harness = installed / "harness"
    build = json.loads(run(harness, "build", "--target", "host", "--json", folder=tmp_path))
    assert Path(build["engine"]).is_file()
    assert {"target", "toolchain", "engine", "manifest", "glibc_needed", "seconds"} <= build.keys()
    digits = resources / "cfg" / "digits"
    model: list[Any] = ["--cfg", digits / "digits.cfg", "--weights", digits / "digits.weights", "--json"]
    scores = json.loads(
        run(harness, "eval", *model, "--dataset", digits / "data", "--limit", "20", folder=tmp_path)
    )
    assert scores["images"] == 20
    assert scores["map50"] > 0.5
    picture = min((digits / "data" / "images").iterdir())
    found = json.loads(run(harness, "detect", *model, picture, folder=tmp_path))
    assert found["images"][0]["detections"]
