"""Agreement with fp32, and top-1 and top-5."""

from __future__ import annotations

import numpy as np
import pytest

from harness.accuracy.agreement import detection_agreement, detection_similarity
from harness.accuracy.boxes import Detections
from harness.accuracy.classify import top, top_accuracy

HERE, THERE = [0.5, 0.5, 0.2, 0.2], [0.2, 0.2, 0.2, 0.2]


def found(*rows: tuple[int, float, list[float]]) -> Detections:
    return Detections(
        boxes=np.array([row[2] for row in rows], np.float32).reshape(-1, 4),
        classes=np.array([row[0] for row in rows], np.intp),
        confidences=np.array([row[1] for row in rows], np.float32),
    )


def test_equal_detections_agree_fully_at_any_confidence() -> None:
    assert detection_agreement([found((0, 0.9, HERE))], [found((0, 0.3, HERE))]) == 1.0


def test_unsure_detections_do_not_count() -> None:
    assert detection_agreement([found((0, 0.2, HERE))], [found()]) == 1.0


def test_missing_surplus_and_misclassified_detections_lower_the_score() -> None:
    reference = [found((0, 0.9, HERE), (1, 0.8, THERE))]
    assert detection_agreement([found((0, 0.9, HERE))], reference) == pytest.approx(2 / 3)
    assert detection_agreement(
        [found((0, 0.9, HERE), (1, 0.8, THERE), (1, 0.7, HERE))], reference
    ) == pytest.approx(4 / 5)
    assert detection_agreement([found((0, 0.9, HERE), (0, 0.8, THERE))], reference) == pytest.approx(0.5)


def test_one_reference_detection_is_matched_once() -> None:
    twice = [found((0, 0.9, HERE), (0, 0.8, HERE))]
    assert detection_agreement(twice, [found((0, 0.9, HERE))]) == pytest.approx(2 / 3)


def test_a_similarity_compares_confidences() -> None:
    reference = [found((0, 0.9, HERE), (1, 0.1, THERE))]
    assert detection_similarity(reference, reference) == 1.0
    assert detection_similarity([found((0, 0.5, HERE), (1, 0.1, THERE))], reference) == pytest.approx(
        1.2 / 1.6
    )
    assert detection_similarity([found((0, 0.9, HERE))], reference) == pytest.approx(1.8 / 1.9)
    assert detection_similarity([found((0, 0.1, THERE))], reference) == 0.0
    assert detection_similarity([found((0, 0.04, HERE))], [found()]) == 1.0


def test_top_counts() -> None:
    scores = np.array([[0.1, 0.5, 0.4], [0.3, 0.3, 0.4]], np.float32)
    labels = np.array([2, 1], np.intp)
    assert top(scores, 2).tolist() == [[1, 2], [2, 0]]
    assert top_accuracy(scores, labels, 1) == 0.0
    assert top_accuracy(scores, labels, 2) == 0.5
    assert top_accuracy(scores, labels, 5) == 1.0
