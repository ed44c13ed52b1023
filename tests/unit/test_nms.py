"""Suppression: by hand, and what must hold for any boxes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.accuracy.boxes import Candidates, Detections
from harness.accuracy.nms import iou, suppress

Floats = npt.NDArray[np.float32]


def candidates(boxes: list[list[float]], probabilities: list[list[float]]) -> Candidates:
    return Candidates(boxes=np.array(boxes, np.float32), probabilities=np.array(probabilities, np.float32))


def kept(found: Detections) -> list[tuple[int, float]]:
    return sorted((int(c), round(float(p), 4)) for c, p in zip(found.classes, found.confidences, strict=True))


def test_iou_of_known_boxes() -> None:
    box = np.array([0.5, 0.5, 1.0, 1.0], np.float32)
    others = np.array(
        [[0.5, 0.5, 1, 1], [1.0, 0.5, 1, 1], [1.5, 0.5, 1, 1], [0.5, 0.5, 0.5, 0.5]], np.float32
    )
    assert iou(box, others).tolist() == [1.0, pytest.approx(1 / 3), 0.0, 0.25]


def test_boxes_without_extent_overlap_nothing() -> None:
    flat = np.array([0.5, 0.5, 0.0, 0.0], np.float32)
    assert iou(flat, flat[None]).tolist() == [0.0]


def test_the_more_probable_of_two_overlapping_boxes_stays() -> None:
    found = suppress(candidates([[0.5, 0.5, 0.4, 0.4], [0.52, 0.5, 0.4, 0.4]], [[0.6], [0.9]]))
    assert kept(found) == [(0, 0.9)]


def test_classes_do_not_suppress_each_other() -> None:
    found = suppress(candidates([[0.5, 0.5, 0.4, 0.4], [0.5, 0.5, 0.4, 0.4]], [[0.6, 0], [0, 0.9]]))
    assert kept(found) == [(0, 0.6), (1, 0.9)]


def test_one_box_may_stand_for_several_classes() -> None:
    found = suppress(candidates([[0.5, 0.5, 0.4, 0.4]], [[0.6, 0.3]]))
    assert kept(found) == [(0, 0.6), (1, 0.3)]


def test_a_suppressed_box_suppresses_nothing() -> None:
    # A chain: the middle one overlaps both ends, the ends do not overlap each other.
    boxes = [[0.2, 0.5, 0.3, 0.3], [0.3, 0.5, 0.3, 0.3], [0.4, 0.5, 0.3, 0.3]]
    assert kept(suppress(candidates(boxes, [[0.9], [0.8], [0.7]]))) == [(0, 0.7), (0, 0.9)]


def test_greedynms_spares_boxes_whose_centres_lie_apart() -> None:
    # IoU 0.5; the centres are 1/3 apart, the box round both is 4/3 by 1: (d²/c²)^0.6 = 0.145.
    pair = candidates([[0, 0, 1, 1], [1 / 3, 0, 1, 1]], [[0.9], [0.8]])
    assert len(suppress(pair, kind="default")) == 1
    assert len(suppress(pair, kind="greedynms")) == 2
    assert len(suppress(pair, kind="greedynms", threshold=0.5 - 0.146)) == 1
    assert len(suppress(pair, kind="greedynms", threshold=0.5 - 0.144)) == 2


def test_diounms_takes_its_exponent_from_the_cfg_and_greedynms_does_not() -> None:
    pair = candidates([[0, 0, 1, 1], [1 / 3, 0, 1, 1]], [[0.9], [0.8]])
    assert len(suppress(pair, kind="diounms", beta=0.6)) == 2
    assert len(suppress(pair, kind="diounms", beta=2.0)) == 1
    assert len(suppress(pair, kind="greedynms", beta=2.0)) == 2


def test_without_boxes_nothing_is_kept() -> None:
    empty = Candidates(boxes=np.zeros((0, 4), np.float32), probabilities=np.zeros((0, 5), np.float32))
    assert len(suppress(empty)) == 0


fractions = st.floats(0, 1, width=32)
sides = st.floats(1 / 64, 1, width=32)
boxes_and_scores = st.lists(
    st.tuples(fractions, fractions, sides, sides, st.sampled_from([0.0, 0.1, 0.3, 0.3, 0.7]), fractions),
    min_size=1,
    max_size=25,
)


@settings(deadline=None)
@given(boxes_and_scores, st.sampled_from(["default", "greedynms", "diounms"]))
def test_suppression_invariants(rows: list[Any], kind: str) -> None:
    table = np.array(rows, np.float32)
    given_candidates = Candidates(boxes=table[:, :4], probabilities=table[:, 4:])
    found = suppress(given_candidates, kind=kind)
    for class_id in (0, 1):
        scores = table[:, 4 + class_id]
        mine = found.classes == class_id
        # The most probable box of a class always stays; nothing without probability does.
        assert mine.any() == (scores > 0).any()
        if mine.any():
            assert found.confidences[mine].max() == scores.max()
            assert found.confidences[mine].min() > 0
        # No two kept boxes overlap; what IoU alone would keep, the distance penalty keeps, too.
        if kind == "default":
            kept_boxes = found.boxes[mine]
            for number in range(len(kept_boxes)):
                assert (iou(kept_boxes[number], kept_boxes[number + 1 :]) <= np.float32(0.45)).all()
    # Suppressing the remaining boxes changes nothing.
    again = np.zeros((len(found), 2), np.float32)
    again[np.arange(len(found)), found.classes] = found.confidences
    assert kept(suppress(Candidates(boxes=found.boxes, probabilities=again), kind=kind)) == kept(found)


@given(boxes_and_scores)
def test_iou_is_symmetric_and_a_fraction(rows: list[Any]) -> None:
    boxes = np.array(rows, np.float32)[:, :4]
    table = np.stack([iou(box, boxes) for box in boxes])
    assert np.allclose(table, table.T, atol=1e-6)
    assert (table >= 0).all()
    assert (table <= 1 + 1e-5).all()
