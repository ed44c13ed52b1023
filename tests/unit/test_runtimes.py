"""Runtimes are found by their names, and one more takes a file and a line."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from flat_models import FlatOperator, FlatTensor, flat_model
from networks import write_sweep

from harness import cli
from harness.config.policy import BUILT_IN, applied
from harness.config.runtimes import RUNTIMES
from harness.config.sweep import Model, Variant
from harness.config.sweep_file import read_sweep
from harness.errors import ConfigurationError
from harness.exporting.formats import ExportedModel
from harness.importing.tflite_file import read_flat_model
from harness.runtimes.base import ModelFile, Program, Runtime, find_runtime
from harness.runtimes.engine_runtime import EngineRuntime
from harness.store.store import Store
from harness.sweep import inputs, model_file
from harness.sweep.inputs import SweepInputs
from harness.sweep.model_file import exported_file, own_file

SWEEP = (
    "models: [{name: net, cfg: net.cfg, weights: net.weights}]\n"
    "policies: [fp32]\ntargets: [host]\nruntimes: [printing]\n"
    "protocol: {warmup: 0, runs: 4, min_seconds: 0, rounds: 2, cool_seconds: 0}\nemulated: {images: 0}\n"
)


def test_every_runtime_can_be_imported() -> None:
    assert [isinstance(find_runtime(name), Runtime) for name in RUNTIMES] == [True] * len(RUNTIMES)


def test_an_unknown_runtime_is_an_error_with_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="unknown runtime engin") as error:
        read_sweep(write_sweep(tmp_path, SWEEP.replace("printing", "engin")))
    assert "engine" in error.value.hint


def printing_sweep(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> Path:
    monkeypatch.setitem(RUNTIMES, "printing", "printing_runtime:PrintingRuntime")
    monkeypatch.setenv("HARNESS_CACHE", str(folder / "cache"))
    # The sweep checks models with the engine of this machine, which is not built here.
    monkeypatch.setattr(
        EngineRuntime, "prepare", lambda *_: Program(path=Path("/bin/false"), sha256="0" * 64)
    )
    monkeypatch.setattr(SweepInputs, "check", lambda *_: None)
    monkeypatch.setattr(SweepInputs, "multiply_adds", lambda *_: 1)
    sweep = write_sweep(folder, text)
    (folder / "net.weights").write_bytes(bytes(4540))  # as many as the cfg takes
    return sweep


def test_an_option_that_a_runtime_does_not_take_fails_its_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = printing_sweep(tmp_path, monkeypatch, SWEEP + "options: [{}, {isa: neon}]\n")
    assert cli.main(["run", "--matrix", str(sweep), "--results", str(tmp_path / "results"), "--json"]) == 6
    cells = json.loads(capsys.readouterr().out.split("\n{")[0])["cells"]
    assert [(cell["status"], cell["error"]) for cell in cells] == [
        ("done", ""),
        ("failed", "printing has no option isa"),
    ]


def test_a_runtime_that_only_prints_takes_one_file_and_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = printing_sweep(tmp_path, monkeypatch, SWEEP)
    results = tmp_path / "results"
    assert cli.main(["run", "--matrix", str(sweep), "--results", str(results), "--json"]) == 0
    (cell,) = json.loads(capsys.readouterr().out)["cells"]
    assert (cell["runtime"], cell["status"], cell["fps"]) == ("printing", "done", 500.0)
    assert (cell["arena_bytes"], cell["digest"], cell["rounds"]) == (None, None, [2, 2])
    assert cli.main(["report", str(results), "--layers", "--json"]) == 0
    (cell,) = json.loads(capsys.readouterr().out)["cells"]
    (layer,) = cell["layers"]
    assert (layer["precision"], layer["executed"], layer["isa"]) == ("int8", "fp32", "paper")


def test_a_run_goes_on_after_runtimes_that_crash_hang_or_cannot_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(RUNTIMES, "absent", "printing_runtime:AbsentRuntime")
    monkeypatch.setitem(RUNTIMES, "crashing", "printing_runtime:CrashingRuntime")
    monkeypatch.setitem(RUNTIMES, "hanging", "printing_runtime:HangingRuntime")
    text = SWEEP.replace("[printing]", "[absent, crashing, hanging, printing]")
    sweep = printing_sweep(tmp_path, monkeypatch, text.replace("warmup: 0", "warmup: 0, timeout: 1"))
    assert cli.main(["run", "--matrix", str(sweep), "--results", str(tmp_path / "results"), "--json"]) == 6
    cells = json.loads(capsys.readouterr().out.split("\n{")[0])["cells"]
    assert {cell["runtime"]: (cell["status"], cell["error"]) for cell in cells} == {
        "absent": ("failed", "host has no Python 3"),
        "crashing": ("failed", "echo ended with status -6: "),
        "hanging": ("failed", "sh: did not end within 1 s on host"),
        "printing": ("done", ""),
    }


def variant(model: str, policy: str, *, source: Path | None, cfg: Path) -> Variant:
    made = Model(name=model, cfg=cfg, weights=cfg.with_suffix(".weights"), source=source)
    return Variant(model=made, policy=policy, cfg=applied(BUILT_IN[policy], made.network))


def test_a_runtime_executes_the_models_own_file_or_names_what_is_missing(tmp_path: Path) -> None:
    cfg = tmp_path / "net.cfg"
    layer = "[convolutional]\nname={}\nfilters=1\nsize=1\n"
    cfg.write_text(
        "[net]\nwidth=8\nheight=8\nchannels=3\noutputs=a,b\n" + layer.format("a") + layer.format("b")
    )
    outputs = [{"name": name, "shape": [1, 1, 8, 8]} for name in ("out a", "out b")]
    (tmp_path / "net.import.json").write_text(json.dumps({"outputs": outputs, "cut": []}))
    onnx = tmp_path / "net.onnx"
    onnx.write_bytes(bytes.fromhex("08 07 12 07") + b"pytorch")
    runtime = find_runtime("onnxruntime")
    for policy in ("fp32", "as-is"):
        found = own_file(runtime, "onnxruntime", variant("net", policy, source=onnx, cfg=cfg))
        assert found == ModelFile(path=onnx, outputs={0: "out a", 1: "out b"})

    def why_not(policy: str, source: Path | None) -> str:
        found = own_file(runtime, "onnxruntime", variant("net", policy, source=source, cfg=cfg))
        assert isinstance(found, ConfigurationError)
        return str(found)

    quantised = replace(variant("net", "as-is", source=onnx, cfg=cfg), tflite="16x8")
    assert isinstance(own_file(runtime, "onnxruntime", quantised), ConfigurationError)
    for policy in ("fp16", "int8"):
        assert f"own file, which has other precisions than policy {policy}" in why_not(policy, onnx)
    assert "runs an ONNX model; net is a Darknet cfg" in why_not("fp32", None)
    onnx.write_bytes(b"\x1c\0\0\0TFL3")
    assert "runs an ONNX model; net.onnx is a TensorFlow Lite model" in why_not("fp32", onnx)


@pytest.mark.parametrize(
    ("calibration", "given"), [("{dataset: data, images: 3}", True), ("ranges.json", False)]
)
def test_an_export_gets_the_pictures_of_the_calibration(
    calibration: str, given: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A converter can record ranges of its own on them; a file of ranges has none."""
    (tmp_path / "ranges.json").write_text("{}")
    text = SWEEP.replace("weights: net.weights", f"weights: net.weights, calibration: {calibration}")
    sweep = read_sweep(printing_sweep(tmp_path, monkeypatch, text))
    found: list[object] = []
    wrote: list[object] = []
    monkeypatch.setattr(inputs, "exported_file", lambda *words: found.append(words[6]))
    writer = "harness.sweep.evaluation.write_calibration_pictures"
    monkeypatch.setattr(writer, lambda *words: wrote.append(words[2:]))
    (model,) = sweep.models
    made = Variant(model=model, policy="fp32", cfg=applied(BUILT_IN["fp32"], model.network))
    with Store(tmp_path / "results") as store:
        program = Program(path=Path("/bin/false"), sha256="0" * 64)
        SweepInputs(sweep, store, program).model_file("litert", made)
    (pictures,) = found
    assert callable(pictures) is given
    if callable(pictures):
        pictures(tmp_path / "pictures.npy")
        assert wrote == [(model.calibration, tmp_path / "pictures.npy")]


@pytest.mark.parametrize(("policy", "written"), [("fp32", "onnx"), ("fp16", "onnx"), ("int8", "mnn")])
def test_a_runtime_can_have_int8_in_a_format_of_its_own(
    policy: str, written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file then depends on the version of the runtime that writes it."""
    sweep = read_sweep(printing_sweep(tmp_path, monkeypatch, SWEEP))
    found: list[tuple[str, str]] = []
    monkeypatch.setattr(inputs, "exported_file", lambda *words: found.append((words[0], words[7])))
    monkeypatch.setattr(SweepInputs, "calibration", lambda *_: None)
    (model,) = sweep.models
    made = Variant(model=model, policy=policy, cfg=applied(BUILT_IN[policy], model.network))
    with Store(tmp_path / "results") as store:
        program = Program(path=Path("/bin/false"), sha256="0" * 64)
        SweepInputs(sweep, store, program).model_file("mnn", made)
    assert found == [(written, find_runtime("mnn").fingerprint if written == "mnn" else "")]


def test_an_export_says_whether_channels_are_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cfg = tmp_path / "net.cfg"
    cfg.write_text("[net]\nwidth=8\nheight=8\nchannels=3\n[convolutional]\nfilters=1\nactivation=relu\n")
    cfg.with_suffix(".weights").write_bytes(struct.pack("<iiiQ4f", 0, 2, 0, 0, 0.5, 1, 1, 1))
    made = variant("net", "fp32", source=None, cfg=cfg)

    def write(exported: object, name: str, folder: Path) -> None:
        (folder / f"net.{name}").write_text("an export")

    monkeypatch.setattr(model_file, "export_model", write)
    found = {
        name: exported_file(name, made, cfg, None, tmp_path / "exports")
        for name in (find_runtime(runtime).export for runtime in ("onnxruntime", "litert", "armnn"))
    }
    assert {name: file.channels_last for name, file in found.items()} == {"onnx": False, "tflite": True}
    assert found["onnx"].path.name == "net.onnx"
    assert found["tflite"].path.name == "net.tflite"


def test_each_quantisation_of_tensorflow_lite_is_an_export_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cfg = tmp_path / "net.cfg"
    cfg.write_text("[net]\nwidth=8\nheight=8\nchannels=3\n[convolutional]\nfilters=1\nactivation=relu\n")
    cfg.with_suffix(".weights").write_bytes(struct.pack("<iiiQ4f", 0, 2, 0, 0, 0.5, 1, 1, 1))
    made = variant("net", "fp32", source=None, cfg=cfg)

    def write(exported: ExportedModel, _name: str, folder: Path) -> list[Path]:
        tensors = [FlatTensor(name=exported.tflite), FlatTensor(name="y")]
        elu = FlatOperator(code=111, inputs=[0], outputs=[1])
        (folder / "net.tflite").write_bytes(flat_model(tensors, [elu]))
        return [folder / "net.tflite"]

    monkeypatch.setattr(model_file, "export_model", write)
    for tflite in ("", "full-integer", "16x8"):
        found = exported_file("tflite", replace(made, tflite=tflite), cfg, None, tmp_path / "exports")
        assert read_flat_model(found.path).tensors[0].name == tflite
    said = [line for line in capsys.readouterr().err.splitlines() if "float" in line]
    assert said == ["net fp32: computed in float: everything"] * 2


def test_a_policy_is_exported_once(tmp_path: Path) -> None:
    cfg, weights = tmp_path / "net.cfg", tmp_path / "net.weights"
    cfg.write_text("[net]\nwidth=8\nheight=8\nchannels=3\n[convolutional]\nfilters=1\nactivation=relu\n")

    def write_weights(last: float) -> None:
        weights.write_bytes(struct.pack("<iiiQ4f", 0, 2, 0, 0, 0.5, 1, 1, last))

    def export(policy: str) -> ModelFile:
        made = variant("net", policy, source=None, cfg=cfg)
        under_policy = tmp_path / f"{policy}.cfg"
        under_policy.write_text(made.cfg.text)
        return exported_file("onnx", made, under_policy, None, tmp_path / "exports")

    write_weights(1)
    half = export("fp16")
    assert (half.path.name, half.outputs) == ("net.onnx", {0: "head_0"})
    written = half.path.stat().st_mtime_ns
    assert (export("fp16"), half.path.stat().st_mtime_ns) == (half, written)
    assert export("fp32").path.read_bytes() != half.path.read_bytes()
    write_weights(2)
    assert export("fp16").path.read_bytes() != half.path.read_bytes()
