"""Decoders on golden outputs of trained networks: known photographs, and networks that see the same faces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.accuracy.boxes import Detections, Floats
from harness.accuracy.names import read_names
from harness.accuracy.nms import iou
from harness.accuracy.placement import Placement
from harness.accuracy.reading import Boxes, Scores, reading_of
from harness.accuracy.stated_outputs import StatedOutputs

pytestmark = pytest.mark.data

# dog.jpg, 768 x 576 pixels: left, top, right, bottom, by eye.
DOG = {
    ("bicycle",): (120, 125, 570, 425),
    ("dog",): (130, 220, 310, 540),
    ("car", "truck"): (465, 75, 690, 172),
}
STRETCHED = Placement()
LETTERBOXED = Placement(height=0.75)
CENTRED = Placement(top=0.125, height=0.75)

COCO = [
    ("yolox-nano/yolox_nano.onnx", "yolox", 416, LETTERBOXED),
    ("nanodet-m-416/nanodet_m_416.onnx", "nanodet", 416, STRETCHED),
    ("nanodet-m-416/nanodet_m_416_int8.onnx", "nanodet", 416, STRETCHED),
    ("fastestdet/FastestDet.onnx", "fastestdet", 352, STRETCHED),
    ("AGPL-3.0/yolov8n-416/yolov8n_full_integer_quant_416.tflite", "yolov8", 416, CENTRED),
]


def golden(shared_data: Path, model: str, picture: str) -> list[Floats]:
    """The outputs of one picture, without the batch; int8 of YOLOv8 as numbers."""
    with np.load(shared_data / "import/golden" / f"{model}.npz") as file:
        count = len(file["output_names"])
        found = [file[f"{picture}__out{number}"][0] for number in range(count)]
    if found[0].dtype == np.int8:
        return [(tensor.astype(np.float32) + 128) * np.float32(0.00469755) for tensor in found]
    return [tensor.astype(np.float32) for tensor in found]


def reading(outputs: list[Floats], size: tuple[int, int], **stated: Any) -> Any:
    plain = StatedOutputs(layers=tuple(range(len(outputs))), names=("x",) * len(outputs), **stated)
    return reading_of(plain, [output.shape for output in outputs], (3, size[1], size[0]))


@pytest.mark.parametrize(
    ("model", "word", "size", "placement"), [pytest.param(*case, id=case[0].split("/")[-1]) for case in COCO]
)
def test_the_dog_the_bicycle_and_the_car(
    shared_data: Path, model: str, word: str, size: int, placement: Placement
) -> None:
    outputs = golden(shared_data, model, "dog")
    names = read_names(shared_data / "coco.names")
    found = reading(outputs, (size, size))
    assert isinstance(found, Boxes)
    assert (found.word, found.guessed, found.classes) == (word, True, 80)
    detections = found.detections(outputs, placement, 0.25)
    for wanted, (left, top, right, bottom) in DOG.items():
        box = np.array(
            [(left + right) / 2 / 768, (top + bottom) / 2 / 576, (right - left) / 768, (bottom - top) / 576],
            np.float32,
        )
        ours = [number for number, class_id in enumerate(detections.classes) if names[class_id] in wanted]
        assert iou(box, detections.boxes[ours]).max(initial=0) > 0.6, wanted


FACES = ["coco-000000001000", "coco-000000005193"]
SECOND_CENTRED = Placement(top=21 / 128, height=86 / 128)


@pytest.fixture(params=FACES)
def faces(shared_data: Path, request: pytest.FixtureRequest) -> dict[str, Detections]:
    """The faces that three networks find in one picture, by network."""
    # The first picture has 640 x 480 pixels, the second 640 x 429.
    top_left = Placement(height=0.75 if request.param == FACES[0] else 214 / 320)
    models = {
        "yunet": ("yunet-n/yunet_n_320_320.onnx", (320, 320), top_left),
        "decoded": ("ultraface-rfb-320/version-RFB-320.onnx", (320, 240), STRETCHED),
        "encoded": (
            "ultraface-rfb-320/version-RFB-320_without_postprocessing.tflite",
            (320, 240),
            STRETCHED,
        ),
    }
    found = {}
    for name, (model, size, placement) in models.items():
        outputs = golden(shared_data, model, request.param)
        found[name] = reading(outputs, size).detections(outputs, placement, 0.5)
    return found


def test_boxes_decoded_in_the_graph_and_here_are_the_same(faces: dict[str, Detections]) -> None:
    one, other = faces["decoded"], faces["encoded"]
    assert len(one) > 3
    assert one.boxes == pytest.approx(other.boxes, abs=1e-4)
    assert one.confidences == pytest.approx(other.confidences, abs=1e-4)


def test_networks_of_two_families_see_the_same_faces(faces: dict[str, Detections]) -> None:
    ultraface = faces["decoded"]
    assert len(faces["yunet"]) > 3
    overlaps = [iou(box, ultraface.boxes).max() for box in faces["yunet"].boxes[:4]]
    assert min(overlaps) > 0.5


def test_blazeface_sees_a_face_that_another_network_sees(shared_data: Path) -> None:
    """It is made for faces at arm's length, and its boxes are wider: the centre is compared."""
    outputs = golden(shared_data, "blazeface-short/face_detection_short_range.tflite", FACES[1])
    found = reading(outputs, (128, 128)).detections(outputs, SECOND_CENTRED, 0.4)
    outputs = golden(shared_data, "ultraface-rfb-320/version-RFB-320.onnx", FACES[1])
    others = reading(outputs, (320, 240)).detections(outputs, STRETCHED, 0.5)
    assert len(found)
    for box in found.boxes:
        assert (np.abs(others.boxes - box)[:, :2] < box[2:] / 2).all(axis=1).any()


@pytest.mark.parametrize(
    ("model", "classes", "wanted"),
    [
        ("efficientnet-lite0/efficientnet_lite0.onnx", 1000, {"eagle": (22, 21)}),
        ("mobilenet-v1-0.25/mobilenet_v1_0.25_224_float.tflite", 1000, {"eagle": (22, 21)}),
    ],
)
def test_the_eagle_is_one_with_and_without_background(
    shared_data: Path, model: str, classes: int, wanted: dict[str, tuple[int, ...]]
) -> None:
    for picture, labels in wanted.items():
        (output,) = golden(shared_data, model, picture)
        found = reading([output], (224, 224))
        assert isinstance(found, Scores)
        assert found.classes == classes
        assert found.scores(output).argmax() in labels  # bald eagle, kite
