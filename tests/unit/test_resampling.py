"""Accuracies of pictures drawn with replacement: that they are those that COCO's own program finds."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from harness.accuracy.boxes import Detections
from harness.accuracy.mean_ap import coco_scores
from harness.accuracy.resampling import (
    RESAMPLES,
    ClassMatches,
    draws,
    kept,
    resampled_ap50,
    resampled_fraction,
)
from harness.accuracy.truth import Truth

SIZE = (100, 100)


def pictures(count: int) -> tuple[list[Detections], list[Truth]]:
    """Boxes of three classes, one of them rare, some in crowds; some detections are off, some doubled."""
    generator = np.random.default_rng(5)
    found, truths = [], []
    for _ in range(count):
        boxes = np.column_stack([generator.uniform(0.2, 0.8, (4, 2)), generator.uniform(0.1, 0.3, (4, 2))])
        classes = generator.choice(3, 4, p=[0.6, 0.38, 0.02])
        crowd = generator.random(4) < 0.1
        truths.append(Truth(boxes=boxes, classes=classes, crowd=crowd))
        guesses = np.concatenate([boxes, boxes[:2]]) + generator.normal(0, 0.03, (6, 4))
        found.append(
            Detections(
                boxes=np.abs(guesses).astype(np.float32),
                classes=np.concatenate([classes, classes[:2]]),
                confidences=generator.random(6).astype(np.float32),
            )
        )
    return found, truths


def test_each_resample_has_the_score_of_pycocotools() -> None:
    found, truths = pictures(30)
    matches = coco_scores(found, truths, [SIZE] * 30).matches
    drawn = draws(30)[:12]
    values = resampled_ap50(matches, drawn)
    for value, counts in zip(values, drawn, strict=True):
        places = np.repeat(np.arange(30), counts)
        again = coco_scores(
            [found[place] for place in places], [truths[place] for place in places], [SIZE] * 30
        )
        assert value == pytest.approx(again.ap50, abs=1e-9)
    every = np.ones((1, 30), np.int16)
    assert resampled_ap50(matches, every)[0] == pytest.approx(coco_scores(found, truths, [SIZE] * 30).ap50)


def test_draws_are_the_same_each_time_and_have_as_many_pictures() -> None:
    drawn = draws(50)
    assert drawn.shape == (RESAMPLES, 50)
    assert (drawn.sum(axis=1) == 50).all()
    assert (drawn == draws(50)).all()
    assert len(np.unique(drawn, axis=0)) == RESAMPLES


def test_resampled_fractions_vary_as_much_as_other_pictures() -> None:
    hits = np.arange(200) < 140
    values = resampled_fraction(hits, draws(200))
    assert values.mean() == pytest.approx(0.7, abs=0.01)
    assert values.std() == pytest.approx(math.sqrt(0.7 * 0.3 / 200), rel=0.15)


def test_scores_identify_their_pictures_and_resamples() -> None:
    drawn = draws(3)
    values = np.full(RESAMPLES, 1 / 3)
    one = kept("top1", values, drawn, ["a", "b", "c"])
    assert one["values"] == [0.333333] * RESAMPLES
    assert one["draws"] == kept("top1", values, drawn, ["a", "b", "c"])["draws"]
    assert one["draws"] != kept("top1", values, drawn, ["a", "b", "d"])["draws"]
    assert one["draws"] != kept("top1", values, drawn[::-1].copy(), ["a", "b", "c"])["draws"]


def test_thousands_of_pictures_take_seconds() -> None:
    generator = np.random.default_rng(6)
    classes = [
        ClassMatches(
            pictures=generator.integers(0, 2000, 2500),
            hits=generator.random(2500) < 0.3,
            boxes=generator.integers(0, 2, 2000),
        )
        for _ in range(20)
    ]
    begin = time.process_time()
    values = resampled_ap50(classes, draws(2000))
    assert time.process_time() - begin < 5
    assert np.isfinite(values).all()
