"""TensorFlow's C library as a runtime: its pins, its words for the program, and exports as one file."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import pytest

from harness.config.policy import BUILT_IN, applied
from harness.config.sweep import Build, Model, Options, Variant
from harness.config.targets import load_target
from harness.errors import ConfigurationError, TargetMismatchError
from harness.runtimes.base import find_runtime
from harness.runtimes.on_board.tensorflow_session import config
from harness.runtimes.tensorflow_runtime import TensorFlowRuntime
from harness.sdk.packages import Python, read_packages
from harness.sdk.pin import read_pin
from harness.sweep import model_file
from harness.sweep.model_file import exported_file


@pytest.mark.parametrize("target", ["host", "pi3", "pi4", "pi5", "jetson-nano", "jetson-orin"])
def test_its_version_is_that_of_the_boards_library(target: str) -> None:
    assert TensorFlowRuntime().version == read_pin(load_target(target)).version


def test_a_board_gets_numpy_alone_for_its_python() -> None:
    packages = read_packages("tensorflow")
    for python in (
        Python(version="3.11", machine="x86_64", glibc="2.36"),
        Python(version="3.11", machine="aarch64", glibc="2.36"),
        Python(version="3.13", machine="aarch64", glibc="2.41"),
    ):
        (numpy,) = packages.fitting(python)
        assert numpy.package == "numpy"
    with pytest.raises(TargetMismatchError, match=r"numpy 2[.0-9]+ has no pinned wheel for Python 3\.6"):
        packages.fitting(Python(version="3.6", machine="aarch64", glibc="2.36"))


def test_a_target_without_tensorflow_is_an_error_before_anything_is_measured(tmp_path: Path) -> None:
    text = Path("toolchains/targets/pi4.yaml").read_text(encoding="utf-8")
    file = tmp_path / "mine.yaml"
    file.write_text("".join(line for line in text.splitlines(True) if not line.startswith("tensorflow")))
    with pytest.raises(ConfigurationError, match="has no TensorFlow pinned"):
        TensorFlowRuntime().prepare(load_target(str(file)), Build())


def test_the_program_loads_the_library_behind_the_one_that_it_needs() -> None:
    paths = {
        "packages": "/p.zip",
        "model": "/m.zip",
        "libtensorflow_cc.so.2": "/cc",
        "libtensorflow_framework.so.2": "/framework",
    }
    words = TensorFlowRuntime().arguments(paths, 2, Options())
    assert words[-2:] == ["--option=library=/framework", "--option=library=/cc"]
    assert words[words.index("--threads") + 1] == "2"


def test_threads_are_those_within_an_operator() -> None:
    """A ConfigProto with the fields 2, intra_op_parallelism_threads, and 5, inter_op_parallelism_threads: -1,
    for the thread that asks."""
    assert config(4) == bytes.fromhex("10 04 28 ff ff ff ff ff ff ff ff ff 01")
    for threads in (0, 128):
        with pytest.raises(ValueError, match="1 to 127"):
            config(threads)


def variant(folder: Path, policy: str) -> Variant:
    cfg = folder / "net.cfg"
    cfg.write_text("[net]\nwidth=8\nheight=8\nchannels=3\n[convolutional]\nfilters=1\nactivation=relu\n")
    cfg.with_suffix(".weights").write_bytes(struct.pack("<iiiQ4f", 0, 2, 0, 0, 0.5, 1, 1, 1))
    model = Model(name="net", cfg=cfg, weights=cfg.with_suffix(".weights"))
    return Variant(model=model, policy=policy, cfg=applied(BUILT_IN[policy], model.network))


def test_an_export_that_is_a_folder_becomes_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = variant(tmp_path, "fp32")

    def write(exported: object, name: str, folder: Path) -> None:
        for file in ("saved_model.pb", "variables/variables.index"):
            path = folder / "net" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file)

    monkeypatch.setattr(model_file, "export_model", write)
    runtime = find_runtime("tensorflow")
    found = [
        exported_file(runtime.export, made, made.model.cfg, None, tmp_path / out) for out in ("one", "two")
    ]
    assert found[0].channels_last
    assert [path.name for path in found[0].path.parent.iterdir()] == ["net.zip"]
    with zipfile.ZipFile(found[0].path) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {
            "saved_model.pb": b"saved_model.pb",
            "variables/variables.index": b"variables/variables.index",
        }
    assert found[0].path.read_bytes() == found[1].path.read_bytes()


@pytest.mark.parametrize("policy", ["fp16", "int8"])
def test_other_precisions_are_refused_with_the_layer(policy: str, tmp_path: Path) -> None:
    made = variant(tmp_path, policy)
    under_policy = tmp_path / "policy.cfg"
    # Without ranges, int8 is quantised at run time.
    under_policy.write_text(made.cfg.text.replace("filters", "quantize=1\nfilters"))
    with pytest.raises(ConfigurationError, match=f"is {policy}.*, but a SavedModel is float32"):
        exported_file("saved-model", made, under_policy, None, tmp_path / "exports")
