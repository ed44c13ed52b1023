"""Mean average precision on cases worked out by hand, and both definitions against each other."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.accuracy.boxes import Detections
from harness.accuracy.mean_ap import coco_scores, darknet_map, darknet_precisions
from harness.accuracy.truth import Truth

Row = tuple[int, float, list[float]]  # class, confidence, box
Box = tuple[float, float, float, float]
Scene = list[tuple[list[tuple[int, Box]], list[tuple[int, float, Box]]]]  # truth and found, by picture
SIZE = (100, 100)
HERE = [0.5, 0.5, 0.2, 0.2]
THERE = [0.2, 0.2, 0.2, 0.2]
NOWHERE = [0.9, 0.9, 0.1, 0.1]


def coco_ap(
    detections: Sequence[Detections], truths: Sequence[Truth], sizes: Sequence[tuple[int, int]]
) -> tuple[float, float]:
    scores = coco_scores(detections, truths, sizes)
    return scores.ap50, scores.ap


def truth(*rows: tuple[int, list[float]], crowd: list[bool] | None = None) -> Truth:
    return Truth(
        boxes=np.array([box for _, box in rows], np.float64).reshape(-1, 4),
        classes=np.array([class_id for class_id, _ in rows], np.intp),
        crowd=np.array(crowd if crowd is not None else [False] * len(rows), np.bool_),
    )


def found(*rows: Row) -> Detections:
    return Detections(
        boxes=np.array([box for _, _, box in rows], np.float32).reshape(-1, 4),
        classes=np.array([class_id for class_id, _, _ in rows], np.intp),
        confidences=np.array([confidence for _, confidence, _ in rows], np.float32),
    )


def test_perfect_detections_score_one() -> None:
    truths = [truth((0, HERE), (1, THERE)), truth((1, HERE))]
    detections = [found((0, 0.9, HERE), (1, 0.8, THERE)), found((1, 0.7, HERE))]
    assert darknet_map(detections, truths, 2) == 1.0
    assert coco_ap(detections, truths, [SIZE] * 2) == pytest.approx((1.0, 1.0))


def test_several_threads_score_at_once_and_print_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    scene = [found((0, 0.9, HERE))], [truth((0, HERE), (0, THERE))], [SIZE]
    before = sys.stdout
    with ThreadPoolExecutor(4) as pool:
        scores = set(pool.map(lambda _: coco_ap(*scene), range(60)))
    assert len(scores) == 1
    assert sys.stdout is before
    assert capsys.readouterr().out == ""


def test_half_of_the_boxes_found_scores_the_recalls_reached() -> None:
    truths = [truth((0, HERE), (0, THERE))]
    detections = [found((0, 0.9, HERE))]
    # Precision 1 at recalls 0.00 to 0.50: 51 of 101 points.
    assert darknet_map(detections, truths, 1) == pytest.approx(51 / 101)
    assert coco_ap(detections, truths, [SIZE])[0] == pytest.approx(51 / 101)


def test_a_false_detection_before_the_true_one_halves_the_precision() -> None:
    truths = [truth((0, HERE))]
    assert darknet_map([found((0, 0.9, NOWHERE), (0, 0.8, HERE))], truths, 1) == pytest.approx(0.5)
    # After it, it costs nothing.
    assert darknet_map([found((0, 0.7, NOWHERE), (0, 0.8, HERE))], truths, 1) == 1.0


def test_the_second_detection_of_a_box_is_false() -> None:
    truths = [truth((0, HERE), (0, THERE))]
    detections = [found((0, 0.9, HERE), (0, 0.8, HERE), (0, 0.7, THERE))]
    # Ranks: true, false, true: precision 1 up to recall 0.5, then 2/3.
    assert darknet_map(detections, truths, 1) == pytest.approx((51 + 50 * 2 / 3) / 101)


def test_confidence_orders_detections_across_pictures() -> None:
    truths = [truth((0, HERE)), truth((0, HERE))]
    detections = [found((0, 0.5, HERE)), found((0, 0.9, NOWHERE), (0, 0.3, HERE))]
    # Ranks: false, true, true: the best precision at every recall is 2/3.
    assert darknet_map(detections, truths, 1) == pytest.approx(2 / 3)


def test_the_right_box_of_the_wrong_class_is_false() -> None:
    assert darknet_map([found((1, 0.9, HERE))], [truth((0, HERE))], 2) == 0.0


def test_darknet_counts_classes_without_boxes_and_coco_does_not() -> None:
    truths, detections = [truth((0, HERE))], [found((0, 0.9, HERE))]
    assert darknet_map(detections, truths, 4) == 0.25
    assert coco_ap(detections, truths, [SIZE])[0] == pytest.approx(1.0)
    assert darknet_precisions(detections, truths, 4).tolist() == [1, 0, 0, 0]


def test_an_overlap_of_exactly_the_threshold_does_not_count_for_darknet() -> None:
    half = [0.5, 0.45, 0.2, 0.1]  # IoU 0.5 with HERE up to rounding
    overlapping = [0.5, 0.5, 0.2, 0.11]
    assert darknet_map([found((0, 0.9, half))], [truth((0, HERE))], 1, iou_threshold=0.501) == 0.0
    assert darknet_map([found((0, 0.9, overlapping))], [truth((0, HERE))], 1) == 1.0


def test_coco_averages_over_overlaps() -> None:
    # IoU 0.64: it counts at 0.50, 0.55 and 0.60 of the ten thresholds.
    shrunk = [0.5, 0.5, 0.16, 0.16]
    scores = coco_ap([found((0, 0.9, shrunk))], [truth((0, HERE))], [SIZE])
    assert scores == pytest.approx((1.0, 0.3))


def test_coco_clips_boxes_to_the_picture() -> None:
    at_the_edge = [0.05, 0.5, 0.1, 0.2]
    beyond = [-0.05, 0.5, 0.3, 0.2]  # the same once what lies outside is cut off
    assert coco_ap([found((0, 0.9, beyond))], [truth((0, at_the_edge))], [SIZE])[1] == pytest.approx(1.0)


def test_coco_ignores_crowds() -> None:
    truths = [truth((0, HERE), (0, THERE), crowd=[False, True])]
    detections = [found((0, 0.9, THERE), (0, 0.8, HERE))]
    assert coco_ap(detections, truths, [SIZE])[0] == pytest.approx(1.0)
    assert darknet_map(detections, truths, 1) == pytest.approx(0.5)  # to Darknet it is background


def test_without_detections_the_score_is_zero() -> None:
    assert darknet_map([found()], [truth((0, HERE))], 1) == 0.0
    assert coco_ap([found()], [truth((0, HERE))], [SIZE]) == (0.0, 0.0)


def test_without_boxes_coco_has_no_score() -> None:
    assert all(map(math.isnan, coco_ap([found((0, 0.9, HERE))], [truth()], [SIZE])))


coordinates = st.sampled_from([0.2, 0.25, 0.5, 0.55, 0.8])
boxes = st.tuples(coordinates, coordinates, st.sampled_from([0.1, 0.2]), st.sampled_from([0.1, 0.2]))
truth_rows = st.lists(st.tuples(st.integers(0, 1), boxes), max_size=4)
found_rows = st.lists(st.tuples(st.integers(0, 1), st.floats(1 / 64, 1, width=32), boxes), max_size=6)
scenes = st.lists(st.tuples(truth_rows, found_rows), min_size=1, max_size=3)


def unpack(scene: Scene) -> tuple[list[Truth], list[Detections]]:
    truths = [truth(*((class_id, list(box)) for class_id, box in rows)) for rows, _ in scene]
    detections = [found(*((c, p, list(box)) for c, p, box in rows)) for _, rows in scene]
    return truths, detections


@settings(deadline=None, max_examples=60)
@given(scenes)
def test_scores_are_fractions_and_the_labels_score_1(
    scene: Scene,
) -> None:
    truths, detections = unpack(scene)
    precisions = darknet_precisions(detections, truths, 2)
    assert ((precisions >= 0) & (precisions <= 1)).all()
    perfect = [
        found(*((int(c), 1.0, box.tolist()) for c, box in zip(t.classes, t.boxes, strict=True)))
        for t in truths
    ]
    for class_id in (0, 1):
        distinct = {
            (number, *box)
            for number, t in enumerate(truths)
            for c, box in zip(t.classes, map(tuple, t.boxes), strict=True)
            if c == class_id
        }
        total = sum(int((t.classes == class_id).sum()) for t in truths)
        if total and len(distinct) == total:
            assert darknet_precisions(perfect, truths, 2)[class_id] == 1.0


@settings(deadline=None, max_examples=60)
@given(scenes)
def test_only_the_order_of_confidences_matters(
    scene: Scene,
) -> None:
    truths, detections = unpack(scene)
    halved = [
        Detections(boxes=d.boxes, classes=d.classes, confidences=d.confidences / np.float32(2))
        for d in detections
    ]
    assert darknet_map(halved, truths, 2) == darknet_map(detections, truths, 2)
