"""libtensorflow from the real wheel, and errors if the wheel is not available."""

from __future__ import annotations

import json
import os
import subprocess
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sdk_user import compile_against

from harness.build.elf import read_needs
from harness.build.engine import build_engine
from harness.config.targets import Target, load_target
from harness.errors import BuildError, ConfigurationError, TargetMismatchError
from harness.resources import cache_directory
from harness.sdk.wheel import LIBRARIES, tensorflow_sdk

pytestmark = pytest.mark.engine

WHEEL = "tensorflow-2.21.0-cp311-cp311-manylinux_2_27_aarch64.whl"


@pytest.fixture
def pi4() -> Target:
    return load_target("pi4")


def test_the_sdk_is_whole_listed_and_found_again(pi4: Target) -> None:
    sdk = tensorflow_sdk(pi4)
    assert (sdk.version, sdk.glibc_needed) == ("2.21.0", "2.27")
    for name in (*(f"lib/{library}" for library in LIBRARIES), "include/tensorflow/c/eager/c_api.h"):
        assert (sdk.folder / name).stat().st_size == sdk.files[name]
    record = json.loads((sdk.folder / "sdk.json").read_text())
    assert record["files"].keys() == sdk.files.keys()
    again = tensorflow_sdk(load_target("jetson"))
    assert again.cached
    assert again.folder == sdk.folder
    assert again.seconds < sdk.seconds or sdk.cached


def test_the_headers_suffice_and_cmakes_file_is_read(pi4: Target, tmp_path: Path) -> None:
    """Compiled for the target against the SDK as a user would: with find_package."""
    program = compile_against(
        tensorflow_sdk(pi4),
        pi4,
        "#include <stdio.h>\n#include <tensorflow/c/c_api.h>\n#include <tensorflow/c/eager/c_api.h>\n"
        'int main(void) { printf("%s %p", TF_Version(), (void*)TFE_NewContext); }\n',
        tmp_path,
    )
    assert LIBRARIES[0] in read_needs(program).libraries


def test_the_engine_is_linked_to_nothing_of_it(pi4: Target) -> None:
    assert not [name for name in read_needs(build_engine(pi4).engine).libraries if "tensorflow" in name]


def test_a_target_that_is_too_old_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "old.yaml"
    file.write_text(
        'description: a board\narchitecture: aarch64\nglibc: "2.23"\nlibstdcxx: "3.4.21"\n'
        'tensorflow: "2.21.0"\n'
    )
    with pytest.raises(
        TargetMismatchError, match=r"libtensorflow_cc\.so\.2 needs glibc 2\.27 .* old has 2\.23"
    ):
        tensorflow_sdk(load_target(str(file)))


def test_a_target_without_tensorflow_says_so() -> None:
    with pytest.raises(ConfigurationError, match="pi4 has no TensorFlow pinned"):
        tensorflow_sdk(replace(load_target("pi4"), tensorflow=None))
    with pytest.raises(
        ConfigurationError, match=r"(?s)asks for TensorFlow 1\.0, but no wheel .*Pinned versions: 2\.21"
    ):
        tensorflow_sdk(replace(load_target("pi4"), tensorflow="1.0"))


# --- where it cannot be had


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and pip that sees only the folder that is returned."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def nothing_left() -> bool:
    return [path.name for path in (cache_directory() / "sdk").iterdir()] == ["lock"]


def write_wheel(folder: Path) -> Path:
    """A wheel that pip accepts and that holds nothing of TensorFlow."""
    path = folder / WHEEL
    with zipfile.ZipFile(path, "w") as archive:
        information = "tensorflow-2.21.0.dist-info"
        archive.writestr(
            f"{information}/METADATA", "Metadata-Version: 2.1\nName: tensorflow\nVersion: 2.21.0\n"
        )
        archive.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: false\n")
        archive.writestr(f"{information}/RECORD", "")
    return path


def test_without_a_network(pi4: Target, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del elsewhere
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(BuildError, match=r"tensorflow 2\.21\.0 for manylinux_2_27_aarch64 cannot be fetched"):
        tensorflow_sdk(pi4)
    assert nothing_left()


def test_another_wheel_of_that_name(pi4: Target, elsewhere: Path) -> None:
    write_wheel(elsewhere)
    with pytest.raises(BuildError, match="not 4b24aca16d52"):
        tensorflow_sdk(pi4)
    assert nothing_left()


def test_a_damaged_wheel(pi4: Target, elsewhere: Path) -> None:
    whole = write_wheel(elsewhere).read_bytes()
    (elsewhere / WHEEL).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BuildError, match="cannot be fetched"):
        tensorflow_sdk(pi4)
    assert nothing_left()


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of 32 MB."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small tmpfs")
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(folder)], check=True)
    monkeypatch.setenv("HARNESS_CACHE", str(folder))
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk(pi4: Target, small_disk: Path) -> None:
    del small_disk
    with pytest.raises(BuildError, match="No space left on device"):
        tensorflow_sdk(pi4)
    assert nothing_left()
