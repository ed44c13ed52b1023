"""What an imported model's cfg says about its outputs, and how they are read."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import encoded_outputs as encoded
import numpy as np
import pytest
from encoded_outputs import CLASSES, HEIGHT, WIDTH, Object

from harness.accuracy.import_description import PostProcess
from harness.accuracy.names import named_columns
from harness.accuracy.placement import Placement
from harness.accuracy.reading import Boxes, Reading, Scores, Unread, check_detects, reading_of
from harness.accuracy.stated_outputs import StatedOutputs, stated_outputs
from harness.config.darknet_cfg import sections_of
from harness.errors import ConfigurationError

NET = "[net]\nwidth=128\nheight=64\n"
LAYERS = "[convolutional]\nname=first\n[convolutional]\n[route]\nname=last\nlayers=-1\n"
PLAIN = StatedOutputs(layers=(0,), names=("0",))


def stated(keys: str) -> StatedOutputs | None:
    return stated_outputs(Path("folder/x.cfg"), sections_of(NET + keys + LAYERS, "x.cfg"))


def test_a_darknet_cfg_states_nothing() -> None:
    assert stated("letter_box=1\n") is None


def test_outputs_are_names_or_indices() -> None:
    found = stated("outputs=last,first,-2,1\noutput_shapes=3549x85,1000,2x3x4,7\nlabels=some.names\n")
    assert found is not None
    assert found.layers == (2, 0, 1, 1)
    assert found.names == ("last", "first", "1", "1")
    assert found.shapes == ((3549, 85), (1000,), (2, 3, 4), (7,))
    assert found.labels == Path("folder/some.names")
    only = stated("decoder=yolox\nnms=.5\ndetections=10\nanchors=1,2\n")
    assert only is not None
    assert (only.layers, only.decoder, only.where) == ((2,), "yolox", "x.cfg:4")
    assert (only.overlap, only.most, only.anchors) == (0.5, 10, (1.0, 2.0))


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        ("outputs=first,second\n", "x.cfg:4: [net] outputs=first,second: no layer has the name second"),
        ("outputs=3\n", "there is no layer 3; the last is 2"),
        ("outputs=-4\n", "there is no layer -4; the last is 2"),
        ("outputs=0,1\noutput_shapes=5\n", "expected 2 shapes, one for each output"),
        ("outputs=0\noutput_shapes=5by4\n", "expected shapes such as"),
        ("outputs=0\nanchors=1,x\n", "anchors=1,x: expected numbers"),
        ("outputs=0\nnms=1.5\n", "expected an overlap above 0"),
    ],
)
def test_wrong_statements_are_errors_with_their_line(keys: str, what: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        stated(keys)
    assert what in error.value.message


def reading(outputs: list[encoded.Floats], **changes: object) -> Reading:
    asked = replace(PLAIN, **changes)  # type: ignore[arg-type]
    return reading_of(asked, [output.shape for output in outputs], (3, HEIGHT, WIDTH))


def described(folder: Path, **changes: object) -> Path:
    """A cfg with what an import of an SSD writes beside it."""
    document = {
        "outputs": [{"shape": [1, 7, 4]}, {"shape": [1, 7, 6]}],
        "cut": [
            {
                "operator": "TFLite_Detection_PostProcess",
                "attributes": {
                    "y_scale": 10.0,
                    "x_scale": 10.0,
                    "h_scale": 5.0,
                    "w_scale": 5.0,
                    "nms_iou_threshold": 0.6,
                    "max_detections": 2,
                    "num_classes": CLASSES,
                    **changes,
                },
                "constants": {"anchors": {"values": encoded.ssd(Object())[2].reshape(-1).tolist()}},
            }
        ],
    }
    (folder / "x.import.json").write_text(json.dumps(document))
    return folder / "x.cfg"


def test_an_ssd_takes_anchors_and_options_from_its_import(tmp_path: Path) -> None:
    cfg = described(tmp_path)
    found = stated_outputs(cfg, sections_of(NET + "outputs=first,last\n" + LAYERS, "x.cfg"))
    assert found is not None
    assert found.shapes == ((7, 4), (7, 6))
    assert found.overlap == pytest.approx(0.6)
    assert found.most == 2
    boxes, scores, _ = encoded.ssd(Object())
    scores[4] = [0.1, *encoded.one_hot(Object(class_id=1), 0.7)]
    boxes[4], scores[5] = boxes[2], 0.0
    ssd = reading_of(found, found.shapes, (3, HEIGHT, WIDTH))
    assert isinstance(ssd, Boxes)
    assert (ssd.word, ssd.together) == ("ssd", True)
    detections = ssd.detections([boxes, scores], Placement(), 0.3)
    assert detections.boxes[0] * [WIDTH, HEIGHT, WIDTH, HEIGHT] == pytest.approx([70, 37, 30, 22], abs=1e-3)
    assert detections.classes.tolist() == [3, 1]  # the other prior is elsewhere
    regular = stated_outputs(
        described(tmp_path, use_regular_nms=True),
        sections_of(NET + "outputs=first,last\nnms=.4\ndetections=9\n" + LAYERS, "x.cfg"),
    )
    assert regular is not None
    assert (regular.overlap, regular.most) == (0.4, 9)  # the cfg's own keys come first
    assert regular.post_process is not None
    assert not regular.post_process.together


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"outputs": [{"shape": "x"}], "cut": []}', '{"outputs": [], "cut": [{}]}', "?"]
)
def test_a_damaged_description_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.import.json").write_text(text)
    with pytest.raises(ConfigurationError, match=r"x\.import\.json"):
        stated_outputs(tmp_path / "x.cfg", sections_of(NET + "outputs=0\n" + LAYERS, "x.cfg"))


def test_boxes_of_all_classes_suppress_each_other_if_told_to() -> None:
    seen = [Object(), Object(score=0.7, class_id=1)]
    outputs = [np.maximum(*[encoded.yolov8(each)[0] for each in seen])]
    process = PostProcess(
        anchors=np.zeros((0, 4), np.float32),
        scales=(1, 1, 1, 1),
        overlap=0.5,
        most=9,
        together=True,
        classes=5,
    )
    found = reading(outputs, post_process=process)
    assert isinstance(found, Boxes)
    assert found.detections(outputs, Placement(), 0.3).classes.tolist() == [3]
    assert len(reading(outputs).detections(outputs, Placement(), 0.3)) == 2  # type: ignore[union-attr]


def test_a_detectors_boxes_are_on_the_picture() -> None:
    outputs = encoded.yolox(Object())
    found = reading(outputs)
    assert isinstance(found, Boxes)
    assert (found.word, found.guessed, found.classes, found.overlap) == ("yolox", True, CLASSES, 0.65)
    placement = Placement(width=0.75)  # a letterbox at the top left
    detections = found.detections(outputs, placement, 0.3)
    assert detections.boxes[0] == pytest.approx(
        [70 / WIDTH / 0.75, 37 / HEIGHT, 30 / WIDTH / 0.75, 22 / HEIGHT], abs=1e-4
    )
    assert not reading(outputs, decoder="yolox").guessed


def test_overlapping_boxes_are_suppressed_as_the_family_does() -> None:
    seen = [Object(), Object(score=0.7, x=72.0), Object(score=0.6, class_id=1)]
    tables = [encoded.yolov8(each)[0] for each in seen]
    outputs = [np.zeros_like(tables[0])]
    for place, each in enumerate(tables):
        outputs[0][:, place] = each[:, np.argmax(each[4:].max(axis=0))]
    outputs[0][0, -1] = WIDTH  # pixels
    found = reading(outputs)
    assert isinstance(found, Boxes)
    assert found.detections(outputs, Placement(), 0.3).classes.tolist() == [3, 1]
    kept = reading(outputs, overlap=0.95)
    assert isinstance(kept, Boxes)
    assert len(kept.detections(outputs, Placement(), 0.3)) == 3
    few = reading(outputs, overlap=0.95, most=2)
    assert isinstance(few, Boxes)
    assert few.detections(outputs, Placement(), 0.3).confidences.tolist() == pytest.approx([0.8, 0.7])
    best = [encoded.table(300, 6, 0, [*seen[0].corners, 0.8, 3])]
    best[0][1] = [*seen[1].corners, 0.7, 3]
    without = reading(best)
    assert isinstance(without, Boxes)
    assert len(without.detections(best, Placement(), 0.3)) == 2  # such networks suppress none


def test_labels_with_gaps_number_the_named_classes(tmp_path: Path) -> None:
    labels = tmp_path / "x.names"
    outputs = encoded.yolov8(Object(class_id=3))
    labels.write_text("a\n???\nb\nc\nd\n")
    found = reading(outputs, labels=labels)
    assert isinstance(found, Boxes)
    assert (found.classes, found.names) == (4, ("a", "b", "c", "d"))
    assert found.detections(outputs, Placement(), 0.3).classes.tolist() == [2]


def test_cocos_own_numbers_become_the_eighty_classes() -> None:
    columns = named_columns([], 90)
    assert len(columns) == 80
    # toothbrush, the last of the 80 classes, is number 90; stop sign, the twelfth, is number 13.
    assert (columns[79], columns[11], columns[0]) == (89, 12, 0)
    assert named_columns([], 80) == tuple(range(80))
    assert named_columns(["x"] * 90, 90) == tuple(range(90))


@pytest.mark.parametrize(("values", "classes"), [(1000, 1000), (1001, 1000), (12, 12)])
def test_a_vector_is_a_classifiers_and_a_thousand_and_one_begin_with_background(
    values: int, classes: int
) -> None:
    output = np.arange(values, dtype=np.float32).reshape(values, 1, 1)
    found = reading([output])
    assert isinstance(found, Scores)
    assert (found.classes, found.guessed) == (classes, True)
    assert found.scores(output.reshape(-1)).tolist() == list(range(values - classes, values))


def test_names_tell_a_background(tmp_path: Path) -> None:
    (tmp_path / "x.names").write_text("background\ncat\ndog\n")
    found = reading([np.zeros(3, np.float32)], labels=tmp_path / "x.names")
    assert isinstance(found, Scores)
    assert (found.classes, found.background, found.names) == (2, True, ("cat", "dog"))


def test_outputs_that_nothing_reads() -> None:
    found = reading([np.zeros((7, 11), np.float32), np.zeros(3, np.float32)])
    assert isinstance(found, Unread)
    with pytest.raises(ConfigurationError, match="no decoder reads its outputs"):
        check_detects(Path("x.cfg"), found)
    with pytest.raises(ConfigurationError, match="it has a score per class") as error:
        check_detects(Path("x.cfg"), reading([np.zeros(3, np.float32)]))
    assert "harness eval" in error.value.hint
    assert isinstance(reading([np.zeros(3, np.float32)], decoder="none"), Unread)
    assert isinstance(reading([np.zeros((3, 4), np.float32)], decoder="classifier"), Scores)


def test_a_bad_network_with_thousands_of_boxes_is_read_in_time() -> None:
    """Every cell of every stride finds every class; the most probable ones are kept."""
    random = np.random.default_rng(3)
    size = 416
    outputs = [random.random((3549, 85)).astype(np.float32)]
    found = reading_of(PLAIN, [outputs[0].shape], (3, size, size))
    assert isinstance(found, Boxes)
    started = time.process_time()
    detections = found.detections(outputs, Placement(), 0.001)
    assert time.process_time() - started < 5
    assert len(detections) == found.most
    best = np.sort((outputs[0][:, 4:5] * outputs[0][:, 5:]).ravel())[-1]
    assert detections.confidences[0] == pytest.approx(best)
