"""The ranges of int8 for a search without a calibration file."""

from __future__ import annotations

from pathlib import Path

from harness.accuracy.calibrate import calibrate
from harness.accuracy.dataset import read_pictures, with_split_in_use
from harness.config.darknet_cfg import read_cfg
from harness.config.policy import BUILT_IN, applied
from harness.file_digest import file_digest
from harness.measure import fingerprint
from harness.runtimes.engine import EngineOptions, HostEngine

_PICTURES = 32


def recorded_ranges(
    engine: HostEngine,
    *,
    cfg: Path,
    weights: Path,
    dataset: Path,
    evaluated: int,
    resize: str | None,
    options: EngineOptions,
    folder: Path,
) -> Path:
    """A calibration file in `folder`, recorded on 32 pictures as `harness calibrate` does, once.

    The pictures are those of the split `train`; without one, those behind the `evaluated` first pictures, and
    the evaluated ones only where there are no others.
    """
    source = with_split_in_use(dataset, "train")
    pictures = read_pictures(source, split="train")
    skip = evaluated if source == with_split_in_use(dataset) and len(pictures) > evaluated else 0
    key = fingerprint.of_values(
        {
            "engine": file_digest(engine.executable),
            "cfg": fingerprint.of_text(applied(BUILT_IN["fp32"], read_cfg(cfg)).text),
            "weights": file_digest(weights),
            "pictures": [file_digest(picture) for picture in pictures[skip:][:_PICTURES]],
            "resize": resize,
            "options": [options.isa, options.algorithm, options.bn_epsilon],
        }
    )
    path = folder / f"ranges-{key[:16]}.json"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        calibration = calibrate(
            engine,
            cfg=cfg,
            weights=weights,
            dataset=source,
            limit=_PICTURES,
            skip=skip,
            resize=resize,
            options=options,
        )
        calibration.write(path)
    return path
