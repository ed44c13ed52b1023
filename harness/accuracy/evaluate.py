"""Accuracy of a model on a dataset, evaluated on this machine.

int8 results have the same bits on every processor, so the scores are valid for boards.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.accuracy.dataset import read_dataset, read_pictures
from harness.accuracy.executor import Executor
from harness.accuracy.heads import read_outputs
from harness.accuracy.model import known_reading, load_model
from harness.accuracy.names import class_names, read_names
from harness.accuracy.overlap import overlap
from harness.accuracy.reading import Boxes, DarknetBoxes, Reading, Scores, Unread
from harness.accuracy.resampling import FEWEST_PICTURES, draws, kept
from harness.accuracy.scoring import Run, Scored, score_boxes, score_classes, score_outputs
from harness.accuracy.sqnr import layer_noise
from harness.accuracy.truth import Dataset
from harness.config.darknet_cfg import read_cfg
from harness.config.model_files import check_weights
from harness.errors import ConfigurationError
from harness.runtimes.engine import EngineOptions, HostEngine

_NEAR_ZERO = 0.01  # of mAP@0.5 or top-1


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
    shown: bool = False,
    per_class: bool = False,
    origin: Path | None = None,
    executor: Executor | None = None,
    fp32_weights: Path | None = None,
) -> dict[str, Any]:
    """Scores as fractions: `map50`, `map` and `darknet_map50`, or `top1` and `top5`; and `images`.

    Outputs that no decoder reads have `outputs` and `agreement` instead. If known, `unlabelled` is the number
    of images without a label file, and `calibration_overlap` the number of images that were used for
    calibration. `names` is the list of WordNet ids for pictures named by id. `agreement` adds the key of that
    name (a second run, in fp32) and needs no labels. `per_class` adds `classes`, and `sizes` of boxes, with
    changes from fp32. `resample` adds `resampled`: the main score of pictures drawn with replacement
    (resampling.kept). `shown` adds `detections`, which is no JSON value: a PictureDetections for each picture
    of a detector. `origin` is the user's cfg if `cfg` is a copy with a policy's precisions. `executor`
    computes the outputs in place of the engine, which then only computes fp32's (with `fp32_weights`).
    Raises ConfigurationError on bad input, with file and line.
    """
    model = load_model(engine, cfg, weights, origin=origin)
    if fp32_weights is not None:
        check_weights(read_cfg(cfg), fp32_weights)
    chosen = options or EngineOptions()
    if calibration is not None:
        chosen = replace(chosen, calibration=calibration)
    rules = model.pictures(resize)
    data = read_dataset(
        dataset,
        classes=model.classes or None,
        labels=names,
        sort_ids=model.outputs.stated is not None,
    ).first(limit)
    _check_kind(model.cfg, data, model.reading, agreement)
    result: dict[str, Any] = {"images": len(data.pictures), "resize": rules.resize}
    if model.reading.word:
        result |= {"decoder": model.reading.word, "decoder_guessed": model.reading.guessed}
    if model.outputs.pictures is not None:
        result["assumed"] = [key for key in model.outputs.pictures.assumed if key != "resize" or not resize]
    if data.unlabelled:
        result["unlabelled"] = data.unlabelled
    if chosen.calibration is not None:
        common = overlap(Path(chosen.calibration), (picture.path for picture in data.pictures))
        if common is not None:
            result["calibration_overlap"] = common
    named = per_class or (shown and isinstance(model.reading, DarknetBoxes | Boxes))
    run = Run(
        engine=engine,
        executor=executor or engine,
        model=model,
        data=data,
        rules=rules,
        options=chosen,
        agreement=agreement,
        fp32_weights=fp32_weights,
        per_class=per_class,
        class_names=_class_names(model.reading, names, origin or cfg, data) if named else (),
        shown=shown,
    )
    scored = _score(run)
    result |= scored.values
    if resample and scored.resampled is not None and len(data.pictures) >= FEWEST_PICTURES:
        drawn = draws(len(data.pictures))
        metric, values = scored.resampled(drawn)
        result["resampled"] = kept(metric, values, drawn, [picture.path.name for picture in data.pictures])
    if shown:
        result["detections"] = scored.shown
    return result


def warning_of_guesses(result: dict[str, Any]) -> str:
    """A warning if an imported model's accuracy is near zero, as with a wrong decoder or wrong preprocessing;
    else ""."""
    near_zero = result.get("map50", result.get("top1", 1.0)) < _NEAR_ZERO
    if not result.get("decoder") or not near_zero:
        return ""
    guessed = ", guessed from their shapes" if result["decoder_guessed"] else ""
    assumed = f" ({', '.join(result['assumed'])} not stated)" if result.get("assumed") else ""
    return (
        f"the accuracy is near zero: the outputs were read as {result['decoder']}{guessed}, and pictures "
        f"fitted by {result['resize']}{assumed}; compare decoder, resize, mean, std and colors with "
        "the training"
    )


def _score(run: Run) -> Scored:
    reading = run.model.reading
    if isinstance(reading, DarknetBoxes | Boxes):
        return score_boxes(run, reading)
    if isinstance(reading, Scores):
        return score_classes(run, reading)
    return score_outputs(run)


def _class_names(reading: Reading, labels: Path | None, cfg: Path, data: Dataset) -> list[str]:
    if isinstance(reading, Boxes | Scores) and reading.names:
        return list(reading.names)
    listed = read_names(labels) if labels else []
    if len(listed) >= reading.classes:  # a list of WordNet ids may have more than the network's
        return listed[: reading.classes]
    return class_names(None, cfg, reading.classes, data.names)


def layer_report(
    engine: HostEngine,
    *,
    cfg: Path,
    weights: Path,
    dataset: Path,
    resize: str | None = None,
    options: EngineOptions | None = None,
    limit: int | None = None,
    origin: Path | None = None,
) -> list[dict[str, Any]]:
    """A row per layer: `index type precision sqnr_db` (None if the values equal fp32's)."""
    model = load_model(engine, cfg, weights, origin=origin)
    rows = layer_noise(
        engine,
        model,
        read_pictures(dataset)[:limit],
        rules=model.pictures(resize),
        options=options or EngineOptions(),
    )
    return [
        {"index": row.index, "type": row.kind, "precision": row.precision, "sqnr_db": row.sqnr_db}
        for row in rows
    ]


def check_dataset(
    cfg: Path,
    dataset: Path,
    labels: Path | None,
    *,
    agreement: bool = False,
    origin: Path | None = None,
) -> Dataset:
    """Reads a data set and raises the errors of `evaluate` that need no engine, which may not be built.

    Only the engine knows the number of a Darknet classifier's classes.
    """
    outputs = read_outputs(cfg, origin)
    known = known_reading(outputs)
    data = read_dataset(
        dataset,
        classes=known.classes or None if known else None,
        labels=labels,
        sort_ids=outputs.stated is not None,
    )
    if known is not None:
        _check_kind(cfg, data, known, agreement)
    elif outputs.stated is None:
        _check_kind(cfg, data, Scores(outputs=0), agreement)
    return data


def _check_kind(cfg: Path, data: Dataset, reading: Reading, agreement: bool) -> None:
    if isinstance(reading, Unread):
        return
    wanted = "classes" if isinstance(reading, Scores) else "boxes"
    if data.kind == wanted or agreement:
        return
    has = {
        "boxes": "boxes",
        "classes": "one class per picture (files or folders named by WordNet id or class)",
        "pictures": "no labels",
    }
    raise ConfigurationError(
        f"{data.path}: has {has[data.kind]}; {cfg} needs {has[wanted]}",
        hint="Use --agreement, which needs no labels." if data.kind == "pictures" else "",
    )
