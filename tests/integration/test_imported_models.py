"""Imported models in the engine: their golden outputs, their precisions, and their accuracy on pictures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from golden_outputs import golden_cases
from test_importing_golden import FLOAT, QUANTISED, SHAPES, same_rows

from harness.accuracy.evaluate import evaluate
from harness.cli import main
from harness.runtimes.engine import EngineOptions, HostEngine

pytestmark = [pytest.mark.engine, pytest.mark.data]

COCO = "coco-val128"
IMAGENET = "imagenet-250"
# With the models' own runtimes, in per cent: AP and AP50, or top-1; and the difference that is allowed.
# ../shared/data/import/README.md has their versions.
DETECTORS = {
    "fastestdet/FastestDet.onnx": (20.76, 35.50, 0.3),
    "nanodet-m-416/nanodet_m_416.onnx": (24.78, 43.23, 0.3),
    "ssd-mobilenet-v1/coco_ssd_mobilenet_v1_1.0_quant_2018_06_29.tflite": (22.13, 35.07, 0.8),
    "yolox-nano/yolox_nano.onnx": (34.28, 50.57, 0.3),
}
CLASSIFIERS = {
    "mcunet/mcunet-512kb-2mb_imagenet.tflite": (82.8, 1.6),
    "mobilenet-v1-0.25/mobilenet_v1_0.25_224_quant.tflite": (58.0, 1.6),
    "mobilenet-v2-1.0/mobilenet_v2_1.0_224_quant.tflite": (90.4, 1.6),
}


def import_to(folder: Path, shared_data: Path, model: str) -> tuple[Path, Path, Path | None]:
    """The cfg, weights and calibration that `harness import` writes."""
    shape = ["--input-shape", ",".join(map(str, SHAPES[model]))] if model in SHAPES else []
    words = ["import", str(shared_data / "import" / model), "--out", str(folder), "--quiet", *shape]
    assert main(words) == 0
    (cfg,) = folder.glob("*.cfg")
    calibration = cfg.with_suffix(".calibration.json")
    return cfg, cfg.with_suffix(".weights"), calibration if calibration.exists() else None


@pytest.mark.parametrize("model", FLOAT)
def test_a_float_model_computes_its_golden_outputs(
    model: str, shared_data: Path, tmp_path: Path, host_engine: HostEngine
) -> None:
    cfg, weights, _ = import_to(tmp_path / "model", shared_data, model)
    (description,) = cfg.parent.glob("*.import.json")
    layers = {layer["name"]: layer["index"] for layer in host_engine.info(cfg)["layers"]}
    cases = list(golden_cases(shared_data / "import", model))
    pictures = np.stack([case.picture for case in cases]).astype(np.float32)
    heads = host_engine.forward(cfg, weights, pictures).heads
    for number, output in enumerate(json.loads(description.read_text())["outputs"]):
        found = heads[layers[output["section"]]]
        for case, values in zip(cases, found, strict=True):
            golden = case.outputs[number]
            rows = same_rows(values.reshape(output["shape"]), case.rows[number], golden)
            assert np.abs(rows - golden).max() <= 1e-4 * np.abs(golden).max()


@pytest.mark.parametrize("model", QUANTISED)
def test_a_model_that_was_published_as_int8_runs_in_int8(
    model: str, shared_data: Path, tmp_path: Path, host_engine: HostEngine
) -> None:
    cfg, weights, calibration = import_to(tmp_path / "model", shared_data, model)
    options = EngineOptions(calibration=calibration)
    layers = host_engine.bench(cfg, weights, options, warmup=0, runs=1, profile=True)["layers"]
    weighted = [layer for layer in layers if layer["type"] in ("convolutional", "connected")]
    assert weighted
    assert {layer["executed"] for layer in weighted} == {"int8"}


@pytest.mark.parametrize("model", DETECTORS)
def test_a_detector_finds_what_its_own_runtime_finds(
    model: str, shared_data: Path, tmp_path: Path, host_engine: HostEngine
) -> None:
    cfg, weights, calibration = import_to(tmp_path / "model", shared_data, model)
    scores = evaluate(
        host_engine, cfg=cfg, weights=weights, calibration=calibration, dataset=shared_data / COCO
    )
    ap, ap50, allowed = DETECTORS[model]
    assert 100 * scores["map"] == pytest.approx(ap, abs=allowed)
    assert 100 * scores["map50"] == pytest.approx(ap50, abs=allowed)


@pytest.mark.parametrize("model", CLASSIFIERS)
def test_a_classifier_is_as_accurate_as_in_its_own_runtime(
    model: str, shared_data: Path, tmp_path: Path, host_engine: HostEngine
) -> None:
    cfg, weights, calibration = import_to(tmp_path / "model", shared_data, model)
    scores = evaluate(
        host_engine, cfg=cfg, weights=weights, calibration=calibration, dataset=shared_data / IMAGENET
    )
    top1, allowed = CLASSIFIERS[model]
    assert 100 * scores["top1"] == pytest.approx(top1, abs=allowed)
