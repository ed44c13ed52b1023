"""The engine runs imported models and computes what their own runtimes computed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from golden_outputs import Array, golden_cases

from harness.importing.metadata import describe
from harness.importing.model import ImportedModel, import_model
from harness.importing.writer import ImportedFiles, write_model
from harness.runtimes.engine import EngineOptions, HostEngine

pytestmark = [pytest.mark.engine, pytest.mark.data]

SHAPES = {"ppocr-cls/ch_ppocr_mobile_v2.0_cls_infer.onnx": (1, 3, 48, 192)}
FLOAT = (
    "blazeface-short/face_detection_short_range.tflite",
    "efficientnet-lite0/efficientnet_lite0.onnx",
    "fastestdet/FastestDet.onnx",
    "mlperf-tiny/ad01_fp32.tflite",
    "nanodet-m-416/nanodet_m_416.onnx",
    "ppocr-cls/ch_ppocr_mobile_v2.0_cls_infer.onnx",
    "ultraface-rfb-320/version-RFB-320.onnx",
    "yolox-nano/yolox_nano.onnx",
    "yolox-nano/yolox_nano_fp16.tflite",
    "yunet-n/yunet_n_320_320.onnx",
)


def imported(folder: Path, name: str, out: Path) -> tuple[ImportedModel, ImportedFiles]:
    model = import_model(folder / name, SHAPES.get(name))
    said = describe(model)
    return model, write_model(model, out, said, said.preprocessing)


def head_of(model: ImportedModel, heads: dict[int, Array], section: str) -> Array:
    """An output's tensor; the engine names the layer that computes what a reshape passes on."""
    places = {found.name: index for index, found in enumerate(model.sections.found)}
    while places[section] not in heads:
        section = model.sections.found[places[section]].inputs[0]
    return heads[places[section]]


@pytest.mark.parametrize("name", FLOAT)
def test_the_engine_computes_a_models_golden_outputs(
    name: str, shared_data: Path, host_engine: HostEngine, tmp_path: Path
) -> None:
    folder = shared_data / "import"
    model, files = imported(folder, name, tmp_path)
    case = next(golden_cases(folder, name))
    heads = host_engine.forward(files.cfg, files.weights, case.picture[None], EngineOptions()).heads
    for output, golden, rows in zip(model.outputs, case.outputs, case.rows, strict=True):
        found = head_of(model, heads, output.section)[0].reshape(output.shape)
        found = (found if rows is None else found[:, rows]).reshape(golden.shape)
        assert np.abs(found - golden).max() <= 1e-4 * np.abs(golden).max()
