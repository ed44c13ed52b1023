"""Accuracy of a model on a dataset, evaluated on this machine.

int8 results have the same bits on every processor, so the scores are valid for boards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness import console
from harness.accuracy.agreement import detection_agreement
from harness.accuracy.boxes import Detections
from harness.accuracy.classify import classify, top, top_accuracy
from harness.accuracy.dataset import read_dataset, read_pictures
from harness.accuracy.detector import detect
from harness.accuracy.heads import Outputs, read_outputs
from harness.accuracy.mean_ap import THRESHOLD, coco_scores, darknet_map
from harness.accuracy.model import Model, in_fp32, load_model
from harness.accuracy.overlap import overlap
from harness.accuracy.resampling import (
    FEWEST_PICTURES,
    Counts,
    draws,
    kept,
    resampled_ap50,
    resampled_fraction,
)
from harness.accuracy.sqnr import layer_noise
from harness.accuracy.truth import Dataset
from harness.errors import ConfigurationError
from harness.runtimes.engine import EngineOptions, HostEngine

# Computes a model's main score: its name, and a value for each resample.
Resample = Callable[[Counts], tuple[str, npt.NDArray[np.float64]]]


def evaluate(
    engine: HostEngine,
    *,
    cfg: Path,
    weights: Path,
    dataset: Path,
    calibration: Path | None = None,
    resize: str | None = None,
    options: EngineOptions | None = None,
    limit: int | None = None,
    names: Path | None = None,
    agreement: bool = False,
    resample: bool = False,
) -> dict[str, Any]:
    """Scores as fractions: `map50`, `map` and `darknet_map50`, or `top1` and `top5`; and `images`.

    If known, `unlabelled` is the number of images without a label file, and `calibration_overlap` the number
    of images that were used for calibration. `names` is the list of WordNet ids for pictures named by id.
    `agreement` adds the key of that name (a second run, in fp32) and needs no labels. `resample` adds
    `resampled`: map50 or top1 of pictures drawn with replacement (resampling.kept). Raises
    ConfigurationError on bad input, with file and line.
    """
    model = load_model(engine, cfg, weights)
    chosen = options or EngineOptions()
    if calibration is not None:
        chosen = replace(chosen, calibration=calibration)
    way = model.resize(resize)
    data = read_dataset(dataset, classes=model.classes, labels=names).first(limit)
    _check_kind(model.cfg, data, model.outputs, agreement)
    result: dict[str, Any] = {"images": len(data.pictures), "resize": way}
    if data.unlabelled:
        result["unlabelled"] = data.unlabelled
    if chosen.calibration is not None:
        common = overlap(Path(chosen.calibration), (picture.path for picture in data.pictures))
        if common is not None:
            result["calibration_overlap"] = common
    score = _score_detector if model.outputs.detects else _score_classifier
    scores, resampled = score(engine, model, data, way, chosen, agreement)
    result |= scores
    if resample and resampled is not None and len(data.pictures) >= FEWEST_PICTURES:
        drawn = draws(len(data.pictures))
        metric, values = resampled(drawn)
        result["resampled"] = kept(metric, values, drawn, [picture.path.name for picture in data.pictures])
    return result


def layer_report(
    engine: HostEngine,
    *,
    cfg: Path,
    weights: Path,
    dataset: Path,
    resize: str | None = None,
    options: EngineOptions | None = None,
    limit: int | None = None,
) -> list[dict[str, Any]]:
    """A row per layer: `index type precision sqnr_db` (None if the values equal fp32's)."""
    model = load_model(engine, cfg, weights)
    rows = layer_noise(
        engine,
        model,
        read_pictures(dataset)[:limit],
        resize=model.resize(resize),
        options=options or EngineOptions(),
    )
    return [
        {"index": row.index, "type": row.kind, "precision": row.precision, "sqnr_db": row.sqnr_db}
        for row in rows
    ]


def check_dataset(cfg: Path, dataset: Path, labels: Path | None, *, agreement: bool = False) -> Dataset:
    """Reads a data set and raises the errors of `evaluate` that need no engine, which may not be built.

    Only the engine knows the number of a classifier's classes.
    """
    outputs = read_outputs(cfg)
    classes = outputs.heads[0].classes if outputs.detects else None
    data = read_dataset(dataset, classes=classes, labels=labels)
    _check_kind(cfg, data, outputs, agreement)
    return data


def _check_kind(cfg: Path, data: Dataset, outputs: Outputs, agreement: bool) -> None:
    wanted = "boxes" if outputs.detects else "classes"
    if data.kind == wanted or (agreement and data.kind == "pictures"):
        return
    has = {
        "boxes": "boxes",
        "classes": "one class per picture (file names start with a WordNet id)",
        "pictures": "no labels",
    }
    raise ConfigurationError(
        f"{data.path}: has {has[data.kind]}; {cfg} needs {has[wanted]}",
        hint="Use --agreement, which needs no labels." if data.kind == "pictures" else "",
    )


def _score_detector(
    engine: HostEngine, model: Model, data: Dataset, way: str, options: EngineOptions, agreement: bool
) -> tuple[dict[str, Any], Resample | None]:
    found, sizes = _detect_all(engine, model, data, way, options, "evaluating")
    result: dict[str, Any] = {}
    resampled: Resample | None = None
    if data.kind == "boxes":
        truths = [picture.truth for picture in data.pictures if picture.truth is not None]
        boxes = sum(int((~truth.crowd).sum()) for truth in truths)
        if not boxes:
            raise ConfigurationError(f"{data.path}: none of the {len(truths)} pictures has a labelled box")
        coco = coco_scores(found, truths, sizes)
        result = {
            "map50": coco.ap50,
            "map": coco.ap,
            "darknet_map50": darknet_map(found, truths, model.classes),
            "boxes": boxes,
        }

        def resampled(drawn: Counts) -> tuple[str, npt.NDArray[np.float64]]:
            return "map50", resampled_ap50(coco.matches, drawn)

    if agreement:
        with in_fp32(model) as reference:
            expected = found
            if model.mixed:
                expected, _ = _detect_all(engine, reference, data, way, options, "evaluating fp32")
        result["agreement"] = detection_agreement(found, expected)
    return result, resampled


def _detect_all(
    engine: HostEngine, model: Model, data: Dataset, way: str, options: EngineOptions, what: str
) -> tuple[list[Detections], list[tuple[int, int]]]:
    found: list[Detections] = []
    sizes: list[tuple[int, int]] = []
    paths = [picture.path for picture in data.pictures]
    with console.progress(what, total=len(paths)) as bar:
        for sample, detections in detect(
            engine, model, paths, threshold=THRESHOLD, resize=way, options=options
        ):
            found.append(detections)
            sizes.append((sample.width, sample.height))
            bar.advance()
    return found, sizes


def _score_classifier(
    engine: HostEngine, model: Model, data: Dataset, way: str, options: EngineOptions, agreement: bool
) -> tuple[dict[str, Any], Resample | None]:
    scores = _classify_all(engine, model, data, way, options, "evaluating")
    result: dict[str, Any] = {}
    resampled: Resample | None = None
    if data.kind == "classes":
        labels = np.array([picture.label for picture in data.pictures], np.intp)
        result = {"top1": top_accuracy(scores, labels, 1), "top5": top_accuracy(scores, labels, 5)}

        def resampled(drawn: Counts) -> tuple[str, npt.NDArray[np.float64]]:
            return "top1", resampled_fraction(top(scores, 1)[:, 0] == labels, drawn)

    if agreement:
        with in_fp32(model) as reference:
            expected = scores
            if model.mixed:
                expected = _classify_all(engine, reference, data, way, options, "evaluating fp32")
        result["agreement"] = float((scores.argmax(axis=1) == expected.argmax(axis=1)).mean())
    return result, resampled


def _classify_all(
    engine: HostEngine, model: Model, data: Dataset, way: str, options: EngineOptions, what: str
) -> npt.NDArray[np.float32]:
    rows = []
    paths = [picture.path for picture in data.pictures]
    with console.progress(what, total=len(paths)) as bar:
        for scores in classify(engine, model, paths, resize=way, options=options):
            rows.append(scores)
            bar.advance()
    return np.stack(rows)
