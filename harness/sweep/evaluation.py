"""Computes on the host, once for all targets: ranges of int8, accuracies, and digests."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import console
from harness.config.sweep import Calibration, Model, Options
from harness.runtimes.engine import EngineOptions, HostEngine

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from harness.accuracy.executor import Executor

RANDOM_SEED = 20  # of sample images where a model has no data set


def record_ranges(engine: HostEngine, model: Model, settings: Calibration, out: Path) -> None:
    """Writes the calibration file of a model to `out`."""
    from harness.accuracy.calibrate import calibrate
    from harness.accuracy.dataset import with_split_in_use

    assert model.calibration_dataset is not None
    dataset = with_split_in_use(model.calibration_dataset, "train")
    calibration = calibrate(
        engine,
        cfg=model.cfg,
        weights=model.weights,
        dataset=dataset,
        method=settings.method,
        limit=settings.images,
        resize=model.resize,
    )
    calibration.write(out)
    own = "" if settings.dataset else ", since the sweep names no other pictures"
    console.log(f"{model.name}: int8's ranges recorded on {calibration.images} pictures of {dataset}{own}")


def write_calibration_pictures(engine: HostEngine, model: Model, settings: Calibration, out: Path) -> None:
    """Writes the pictures on which `record_ranges` records, as .npy: float32 [n, channels, height, width]."""
    from harness.accuracy.calibrate import write_pictures
    from harness.accuracy.dataset import with_split_in_use
    from harness.accuracy.model import load_model

    assert model.calibration_dataset is not None
    write_pictures(
        load_model(engine, model.cfg, model.weights),
        dataset=with_split_in_use(model.calibration_dataset, "train"),
        limit=settings.images,
        resize=model.resize,
        out=out,
    )


def accuracy(
    engine: HostEngine,
    model: Model,
    cfg: Path,
    calibration: Path | None,
    options: Options,
    executor: Executor | None = None,
) -> dict[str, Any]:
    """Scores of a model under a policy (`cfg` is the policy's) on the model's data set, with resampled scores
    for intervals, and its `detections` (evaluate). `executor` computes the outputs in place of the engine."""
    from harness.accuracy.evaluate import evaluate

    assert model.dataset is not None
    return evaluate(
        engine,
        cfg=cfg,
        origin=model.cfg,
        weights=model.weights,
        dataset=model.dataset,
        calibration=calibration,
        resize=model.resize,
        options=EngineOptions(threads=os.cpu_count() or 1, bn_epsilon=options.bn_epsilon),
        limit=model.limit,
        names=model.labels,
        resample=True,
        shown=True,
        executor=executor,
    )


def digests(
    engine: HostEngine, model: Model, cfg: Path, calibration: Path | None, options: Options, samples: Path
) -> list[str]:
    """The host's digest of every sample image."""
    import numpy as np

    images = np.load(samples, allow_pickle=False)
    chosen = EngineOptions(bn_epsilon=options.bn_epsilon, calibration=calibration)
    return engine.forward(cfg, model.weights, images, chosen, digest=True).digests


def write_samples(engine: HostEngine, model: Model, count: int, out: Path) -> None:
    """Writes the first images of a model's data set at the network's size, as float32 [n, c, h, w]."""
    import io

    import numpy as np

    from harness.files import write_atomically

    buffer = io.BytesIO()
    np.save(buffer, _samples(engine, model, count), allow_pickle=False)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, buffer.getvalue())


def _random(info: Mapping[str, Any], count: int) -> npt.NDArray[np.generic]:
    """Random pictures; for several inputs [n, values, 1, 1], all inputs of an image one behind the other."""
    import numpy as np

    random = np.random.default_rng(RANDOM_SEED)
    channels, height, width = info["input"]
    more = [math.prod(info["layers"][layer]["out"]) for layer in info["inputs"] if layer >= 0]
    if more:
        return random.random((count, channels * height * width + sum(more), 1, 1), dtype=np.float32)
    return random.integers(0, 256, (count, height, width, channels), dtype=np.uint8)


def _samples(engine: HostEngine, model: Model, count: int) -> npt.NDArray[np.generic]:
    import numpy as np

    from harness.accuracy.dataset import read_pictures
    from harness.accuracy.model import load_model
    from harness.accuracy.preprocess import prepare

    if model.dataset is None:
        return _random(engine.info(model.cfg), count)
    loaded = load_model(engine, model.cfg, model.weights)
    rules = loaded.pictures(model.resize)
    pictures = read_pictures(model.dataset)[:count]
    return np.stack([prepare(picture, loaded.input, rules).tensor for picture in pictures])
