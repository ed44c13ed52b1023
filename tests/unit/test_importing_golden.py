"""Published models compute what their own runtimes computed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from cfg_executor import Network, pieces
from golden_outputs import Array, Case, golden_cases

from harness.config.import_options import ImportOptions
from harness.importing.cfg_text import calibration_text, cfg_text, default_preprocessing, weights_bytes
from harness.importing.metadata import describe
from harness.importing.model import ImportedModel, import_model
from harness.importing.quantization import Quantization

pytestmark = pytest.mark.data

SHAPES = {"ppocr-cls/ch_ppocr_mobile_v2.0_cls_infer.onnx": (1, 3, 48, 192)}
FLOAT = (
    "blazeface-short/face_detection_short_range.tflite",
    "efficientnet-lite0/efficientnet_lite0.onnx",
    "fastestdet/FastestDet.onnx",
    "mlperf-tiny/ad01_fp32.tflite",
    "mlperf-tiny/pretrainedResnet.tflite",
    "mlperf-tiny/vww_96_float.tflite",
    "mobilenet-v1-0.25/mobilenet_v1_0.25_224_float.tflite",
    "nanodet-m-416/nanodet_m_416.onnx",
    "ppocr-cls/ch_ppocr_mobile_v2.0_cls_infer.onnx",
    "ultraface-rfb-320/version-RFB-320.onnx",
    "ultraface-rfb-320/version-RFB-320_without_postprocessing.tflite",
    "yolox-nano/yolox_nano.onnx",
    "yolox-nano/yolox_nano_fp16.tflite",
    "yunet-n/yunet_n_320_320.onnx",
)
# Mean difference in steps of the output's grid. XNNPACK's and the reference kernels' differ by more.
QUANTISED = {
    "AGPL-3.0/yolov8n-416/yolov8n_full_integer_quant_416.tflite": 0.15,
    "mcunet/mcunet-512kb-2mb_imagenet.tflite": 1.5,
    "mlperf-tiny/ad01_int8.tflite": 0.01,
    "mlperf-tiny/kws_ref_model.tflite": 0.01,
    "mlperf-tiny/pretrainedResnet_quant.tflite": 0.01,
    "mlperf-tiny/vww_96_int8.tflite": 0.01,
    "mobilenet-v1-0.25/mobilenet_v1_0.25_224_quant.tflite": 0.05,
    "mobilenet-v2-1.0/mobilenet_v2_1.0_224_quant.tflite": 1.0,
}
# Their runtimes round activations that are not rounded here: a share of the largest value.
ROUNDED = {
    "mlperf-tiny/kws_ref_model_float32.tflite": 0.01,
    "nanodet-m-416/nanodet_m_416_int8.onnx": 0.05,
    "yolox-nano/yolox_nano_dynamic_range.tflite": 0.01,
}
SSD = "ssd-mobilenet-v1/coco_ssd_mobilenet_v1_1.0_quant_2018_06_29.tflite"


@cache
def model_of(folder: Path, name: str) -> ImportedModel:
    return import_model(folder / name, SHAPES.get(name))


def outputs_of(model: ImportedModel, picture: Array) -> list[Array]:
    """With every tensor on the model's grid, if the model has grids."""
    text = cfg_text(model, default_preprocessing(model), {})
    found = Network(text, weights_bytes(model), calibration_text(model)).run(picture)
    return [found[output.section].reshape(output.shape) for output in model.outputs]


def grid_of(model: ImportedModel, section: str) -> Quantization:
    grid = model.sections.grid(section)
    assert grid is not None
    return grid


def real(stored: Array, grid: Quantization) -> Array:
    """The real numbers of stored ones."""
    shift = 128 if stored.dtype == np.uint8 else 0
    return np.asarray((stored.astype(np.float64) - shift - grid.zero_points[0]) * grid.scales[0])


def first_case(folder: Path, name: str) -> Case:
    return next(golden_cases(folder, name))


def same_rows(output: Array, rows: Array | None, like: Array) -> Array:
    return (output if rows is None else output[:, rows]).reshape(like.shape)


@pytest.mark.parametrize("name", FLOAT)
def test_a_float_model_computes_its_golden_outputs(name: str, shared_data: Path) -> None:
    folder = shared_data / "import"
    model, case = model_of(folder, name), first_case(folder, name)
    found = outputs_of(model, case.picture)
    assert len(found) == len(case.outputs)
    for output, golden, rows in zip(found, case.outputs, case.rows, strict=True):
        error = np.abs(same_rows(output, rows, golden) - golden).max()
        assert error <= 1e-4 * np.abs(golden).max()


@pytest.mark.parametrize("name", ROUNDED)
def test_a_model_whose_runtime_rounds_more_is_near_its_golden_outputs(name: str, shared_data: Path) -> None:
    folder = shared_data / "import"
    model, case = model_of(folder, name), first_case(folder, name)
    found = outputs_of(model, case.picture)
    for output, golden, rows in zip(found, case.outputs, case.rows, strict=True):
        error = np.abs(same_rows(output, rows, golden) - golden).mean()
        assert error <= ROUNDED[name] * np.abs(golden).max()


@pytest.mark.parametrize("name", QUANTISED)
def test_a_quantised_model_computes_its_golden_outputs(name: str, shared_data: Path) -> None:
    folder = shared_data / "import"
    model, case = model_of(folder, name), first_case(folder, name)
    grid = grid_of(model, model.sections.input)
    stored = case.picture.astype(np.int8) if case.name == "synthetic" else None
    if stored is None and "mobilenet_v" in name:  # pictures are stored as they are
        stored = case.picture.astype(np.uint8)
    picture = case.picture if stored is None else real(stored, grid)
    (found,), (golden,) = outputs_of(model, picture), case.outputs
    steps = grid_of(model, model.outputs[0].section)
    error = np.abs(found - real(golden, steps)) / steps.scales[0]
    assert error.mean() <= QUANTISED[name]


@pytest.mark.parametrize("name", [*QUANTISED, SSD])
def test_all_weights_of_a_quantised_model_are_int8_with_its_scales(name: str, shared_data: Path) -> None:
    sections = model_of(shared_data / "import", name).sections
    weighted = [section for section in sections.found if section.kind in ("convolutional", "connected")]
    assert all(("int8", "1") in section.keys and ("quantize", "0") in section.keys for section in weighted)
    for section in weighted:
        weights = section.weights[1]
        scales = np.array(section.weight_scales).reshape(-1, *[1] * (weights.ndim - 1))
        stored = weights / scales
        assert np.abs(stored).max() <= 127.01
        again = len(section.weight_scales) > 1 and sections.requantised
        assert again or np.abs(stored - np.rint(stored)).max() < 1e-2


def test_the_boxes_of_ssd_are_those_of_its_post_processing(shared_data: Path) -> None:
    folder = shared_data / "import"
    model, case = model_of(folder, SSD), first_case(folder, SSD)
    (cut,) = model.cuts
    assert cut.operator == "TFLite_Detection_PostProcess"
    assert [output.name for output in model.outputs] == list(cut.inputs)
    grid = grid_of(model, model.sections.input)
    boxes, scores = outputs_of(model, real(case.picture.astype(np.uint8), grid))
    best = scores[0, :, 1:].max(axis=1).argmax()
    anchors = next(iter(cut.constants.values()))[best]
    y, x = (boxes[0, best, :2] / 10) * anchors[2:] + anchors[:2]
    height, width = np.exp(boxes[0, best, 2:] / 5) * anchors[2:]
    found = [y - height / 2, x - width / 2, y + height / 2, x + width / 2]
    assert np.allclose(found, case.outputs[0][0, 0], atol=0.02)
    assert scores[0, best, 1:].argmax() == case.outputs[1][0, 0]
    assert abs(scores[0, best].max() - case.outputs[2][0, 0]) < 0.02


def test_transpositions_of_channels_last_models_cancel(shared_data: Path) -> None:
    """yolox-nano has 218 of its own, and two at each operator on images; one at the end moves numbers."""
    folder = shared_data / "import"
    for name, most in (
        ("yolox-nano/yolox_nano_fp16.tflite", 1),
        ("mcunet/mcunet-512kb-2mb_imagenet.tflite", 0),
        ("blazeface-short/face_detection_short_range.tflite", 4),  # two heads of two sizes
    ):
        model = model_of(folder, name)
        text = cfg_text(model, default_preprocessing(model), {})
        assert list(pieces(text)).count("transpose") == most


def test_what_a_model_says_about_pictures_and_classes_is_kept(shared_data: Path) -> None:
    folder = shared_data / "import"
    yolo = describe(model_of(folder, next(iter(QUANTISED))), ImportOptions())
    assert (yolo.labels[0], yolo.labels[79], len(yolo.labels)) == ("person", "toothbrush", 80)
    assert (yolo.preprocessing.resize, yolo.preprocessing.fill) == ("letterbox", 114.0)
    assert np.allclose(yolo.preprocessing.std or (), [255], rtol=1e-3)
    labels = describe(model_of(folder, SSD), ImportOptions()).labels
    assert labels[0] == "person"


def test_the_warning_about_weights_far_from_their_zero_point_is_one(shared_data: Path) -> None:
    found: Mapping[str, ImportedModel] = {
        name: model_of(shared_data / "import", name) for name in (*QUANTISED, SSD)
    }
    warned = {name for name, model in found.items() if model.warnings}
    assert warned == {name for name in found if "mobilenet" in name}
    assert all(len(found[name].warnings) == 1 for name in warned)
