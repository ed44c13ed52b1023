"""The scores of a model on a data set, for each way to read its outputs."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness import console
from harness.accuracy.agreement import detection_agreement
from harness.accuracy.boxes import Detections, Floats
from harness.accuracy.breakdown import BoxScore, breakdown
from harness.accuracy.classify import outputs_of_pictures, top, top_accuracy
from harness.accuracy.detector import detect
from harness.accuracy.executor import Executor
from harness.accuracy.mean_ap import coco_scores, darknet_map
from harness.accuracy.model import Model, in_fp32
from harness.accuracy.output_agreement import compare_outputs
from harness.accuracy.picture_detections import PictureDetections, shown_detections
from harness.accuracy.picture_rules import PictureRules
from harness.accuracy.reading import BoxReading, Scores
from harness.accuracy.resampling import Counts, resampled_ap50, resampled_fraction, resampled_mean
from harness.accuracy.truth import Dataset, Truth
from harness.errors import ConfigurationError
from harness.runtimes.engine import EngineOptions, HostEngine

# Computes a model's main score: its name, and a value for each resample.
Resample = Callable[[Counts], tuple[str, npt.NDArray[np.float64]]]


@dataclass(frozen=True, kw_only=True)
class Run:
    """What is evaluated, and what is asked beside the scores."""

    engine: HostEngine  # the reference in fp32
    executor: Executor  # of the model
    model: Model
    data: Dataset
    rules: PictureRules
    options: EngineOptions
    agreement: bool = False  # with fp32
    fp32_weights: Path | None = None  # of the reference, if they are not the model's
    per_class: bool = False  # scores by class and by size, with their changes from fp32
    class_names: Sequence[str] = ()  # for `per_class` and `shown`
    shown: bool = False  # the detections that are shown in each picture


@dataclass(frozen=True, kw_only=True)
class Scored:
    """Scores as JSON values, and the main one's resampling where labels are known."""

    values: dict[str, Any]
    resampled: Resample | None = None
    shown: Sequence[PictureDetections] = ()


@contextlib.contextmanager
def _in_fp32(run: Run) -> Iterator[Model]:
    """The reference of a run."""
    with in_fp32(run.model) as reference:
        yield replace(reference, weights=run.fp32_weights or reference.weights)


def score_boxes(run: Run, reading: BoxReading) -> Scored:
    """A detector's mAP. Raises ConfigurationError if the data set has no box."""
    found, sizes = _detections(run, run.executor, run.model, reading, "evaluating")
    values: dict[str, Any] = {}
    resampled: Resample | None = None
    expected = found
    if run.model.mixed and (run.agreement or run.per_class):
        with _in_fp32(run) as reference:
            expected, _ = _detections(run, run.engine, reference, reading, "evaluating fp32")
    if run.data.kind == "boxes":
        truths = [picture.truth for picture in run.data.pictures if picture.truth is not None]
        boxes = sum(int((~truth.crowd).sum()) for truth in truths)
        if not boxes:
            raise ConfigurationError(
                f"{run.data.path}: none of the {len(truths)} pictures has a labelled box"
            )
        coco = coco_scores(found, truths, sizes)
        values = {
            "map50": coco.ap50,
            "map": coco.ap,
            "darknet_map50": darknet_map(found, truths, reading.classes),
            "boxes": boxes,
        }

        def resampled(drawn: Counts) -> tuple[str, npt.NDArray[np.float64]]:
            return "map50", resampled_ap50(coco.matches, drawn)

        if run.per_class:
            values |= _box_rows(run, found, expected, truths, sizes)
    if run.agreement:
        values["agreement"] = detection_agreement(found, expected)
    paths = [picture.path for picture in run.data.pictures]
    shown = shown_detections(paths, found, run.class_names) if run.shown else ()
    return Scored(values=values, resampled=resampled, shown=shown)


def score_classes(run: Run, reading: Scores) -> Scored:
    """A classifier's top-1 and top-5."""
    scores = _class_scores(run, run.executor, run.model, reading, "evaluating")
    values: dict[str, Any] = {}
    resampled: Resample | None = None
    expected = scores
    if run.model.mixed and (run.agreement or run.per_class):
        with _in_fp32(run) as reference:
            expected = _class_scores(run, run.engine, reference, reading, "evaluating fp32")
    if run.data.kind == "classes":
        labels = np.array([picture.label for picture in run.data.pictures], np.intp)
        values = {"top1": top_accuracy(scores, labels, 1), "top5": top_accuracy(scores, labels, 5)}

        def resampled(drawn: Counts) -> tuple[str, npt.NDArray[np.float64]]:
            return "top1", resampled_fraction(top(scores, 1)[:, 0] == labels, drawn)

        if run.per_class:
            values["classes"] = _class_rows(run, scores, expected, labels)
    if run.agreement:
        values["agreement"] = float((scores.argmax(axis=1) == expected.argmax(axis=1)).mean())
    return Scored(values=values, resampled=resampled)


def score_outputs(run: Run) -> Scored:
    """Outputs that nothing reads, compared with fp32's: `agreement`, and `outputs` with a row for each."""
    stated = run.model.outputs.stated
    with (
        _in_fp32(run) as reference,
        console.progress("comparing outputs", total=len(run.data.pictures)) as bar,
    ):

        def pairs() -> Iterator[tuple[list[Floats], list[Floats]]]:
            paths = [picture.path for picture in run.data.pictures]
            both = [
                outputs_of_pictures(executor, model, paths, rules=run.rules, options=run.options)
                for executor, model in ((run.executor, run.model), (run.engine, reference))
            ]
            for given, expected in zip(*both, strict=True):
                yield given, expected
                bar.advance()

        rows = compare_outputs(stated.names if stated else ("output",), pairs())
    shares = np.array([row.shares for row in rows]).mean(axis=0)

    def resampled(drawn: Counts) -> tuple[str, npt.NDArray[np.float64]]:
        return "agreement", resampled_mean(shares, drawn)

    return Scored(
        resampled=resampled,
        values={
            "agreement": float(np.mean([row.agreement for row in rows])),
            "outputs": [
                {
                    "name": row.name,
                    "shape": list(row.shape),
                    "sqnr_db": row.sqnr_db,
                    "agreement": row.agreement,
                }
                for row in rows
            ],
        },
    )


def _detections(
    run: Run, executor: Executor, model: Model, reading: BoxReading, what: str
) -> tuple[list[Detections], list[tuple[int, int]]]:
    found: list[Detections] = []
    sizes: list[tuple[int, int]] = []
    paths = [picture.path for picture in run.data.pictures]
    with console.progress(what, total=len(paths)) as bar:
        for sample, detections in detect(
            executor,
            model,
            paths,
            reading=reading,
            threshold=reading.least,
            rules=run.rules,
            options=run.options,
        ):
            found.append(detections)
            sizes.append((sample.width, sample.height))
            bar.advance()
    return found, sizes


def _class_scores(
    run: Run, executor: Executor, model: Model, reading: Scores, what: str
) -> npt.NDArray[np.float32]:
    """[pictures, classes]."""
    rows = []
    paths = [picture.path for picture in run.data.pictures]
    with console.progress(what, total=len(paths)) as bar:
        for outputs in outputs_of_pictures(executor, model, paths, rules=run.rules, options=run.options):
            rows.append(reading.scores(outputs[0].reshape(-1)))
            bar.advance()
    return np.stack(rows)


def _box_rows(
    run: Run,
    found: Sequence[Detections],
    expected: Sequence[Detections],
    truths: Sequence[Truth],
    sizes: Sequence[tuple[int, int]],
) -> dict[str, Any]:
    """The rows `classes` and `sizes`; with changes from fp32 if the model has other precisions."""
    given = breakdown(found, truths, sizes)
    fp32 = breakdown(expected, truths, sizes) if run.model.mixed else None
    return {
        "classes": [
            {"class": run.class_names[class_id]} | _scores(score, fp32.classes[class_id] if fp32 else None)
            for class_id, score in given.classes.items()
        ],
        "sizes": [
            {"size": size} | _scores(score, fp32.sizes[size] if fp32 else None)
            for size, score in given.sizes.items()
        ],
    }


def _scores(score: BoxScore, fp32: BoxScore | None) -> dict[str, Any]:
    values = {"map50": score.ap50, "map": score.ap, "recall": score.recall}
    if fp32 is not None:
        values["map50_change"] = score.ap50 - fp32.ap50
        values["recall_change"] = score.recall - fp32.recall
    known = {key: None if math.isnan(value) else value for key, value in values.items()}
    return {"boxes": score.boxes} | known


def _class_rows(
    run: Run,
    scores: npt.NDArray[np.float32],
    expected: npt.NDArray[np.float32],
    labels: npt.NDArray[np.intp],
) -> list[dict[str, Any]]:
    hits, reference = scores.argmax(axis=1) == labels, expected.argmax(axis=1) == labels
    rows = []
    for class_id in np.unique(labels):
        chosen = labels == class_id
        row: dict[str, Any] = {
            "class": run.class_names[class_id],
            "images": int(chosen.sum()),
            "top1": float(hits[chosen].mean()),
        }
        if run.model.mixed:
            row["top1_change"] = row["top1"] - float(reference[chosen].mean())
        rows.append(row)
    return rows
