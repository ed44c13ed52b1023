"""Repairs a network for int8: from a model and pictures to weights and ranges."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from harness.accuracy.calibrate import calibrate
from harness.accuracy.dataset import read_pictures
from harness.accuracy.model import load_model
from harness.accuracy.preprocess import prepare_chunks
from harness.config.darknet_cfg import read_cfg
from harness.config.policy import BUILT_IN, apply
from harness.config.repairs import REPAIRS
from harness.errors import ConfigurationError
from harness.exporting.weights_file import EPSILON, Floats
from harness.repair.equalisation import equalise
from harness.repair.int8_path import Int8Path, with_weight_steps
from harness.repair.parameters import Parameters
from harness.repair.reconstruction import Fit, Fitted, reconstruct, wanted_outputs
from harness.runtimes.engine import EngineOptions, HostEngine
from harness.temporary import temporary_folder

_OF_LAYERS = frozenset({"rounding", "clipping", "bias"})
_PREPARED = 8  # pictures at a time


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to repair, by which repairs, on which pictures."""

    cfg: Path
    weights: Path
    dataset: Path
    repairs: frozenset[str] = frozenset(REPAIRS)
    limit: int = 64  # pictures
    resize: str | None = None
    calibration: Path | None = None  # ranges to keep, without the repairs that choose ranges
    options: EngineOptions = field(default_factory=lambda: EngineOptions(threads=os.cpu_count() or 1))


@dataclass(frozen=True, kw_only=True)
class Repaired:
    """The contents of the files, and what the repairs did."""

    cfg: str  # all layers with weights in int8
    weights: bytes
    calibration: Mapping[str, Any]
    pictures: int
    factors: int  # of equalisation
    layers: Mapping[int, Fitted]  # empty if no repair of layers was asked


def repair(engine: HostEngine, request: Request) -> Repaired:
    """Makes the repairs. Raises ConfigurationError for a network that cannot be repaired, and bad input."""
    epsilon = EPSILON if request.options.bn_epsilon is None else request.options.bn_epsilon
    parameters = Parameters(request.cfg, request.weights, epsilon)
    with temporary_folder("repair") as folder:
        cfg, weights = folder / request.cfg.name, folder / "fp32.weights"
        _write_text(cfg, apply(BUILT_IN["fp32"], parameters.cfg.text))
        weights.write_bytes(parameters.data())
        factors = 0
        if "equalise" in request.repairs and request.calibration is None:
            factors = equalise(parameters, _spans(_recorded(engine, request, cfg, weights, "minmax")))
            weights.write_bytes(parameters.data())
        document = _ranges(engine, request, cfg, weights)
        layers: Mapping[int, Fitted] = {}
        if request.repairs & _OF_LAYERS:
            pictures = _pictures(engine, request)
            wanted = wanted_outputs(
                engine, request.options, parameters, cfg=cfg, weights=weights, pictures=pictures
            )
            path = Int8Path(engine, request.options, folder, document)
            fit = Fit(**{name: name in request.repairs for name in _OF_LAYERS})
            layers = reconstruct(path, parameters, wanted, pictures, fit)
            document = with_weight_steps(document, {index: layer.steps for index, layer in layers.items()})
    return Repaired(
        cfg=apply(BUILT_IN["int8"], read_cfg(request.cfg).text),
        weights=parameters.data(),
        calibration=document,
        pictures=len(_paths(request)),
        factors=factors,
        layers=layers,
    )


def _ranges(engine: HostEngine, request: Request, cfg: Path, weights: Path) -> Mapping[str, Any]:
    if request.calibration is None:
        return _recorded(engine, request, cfg, weights, "mse" if "ranges" in request.repairs else "minmax")
    document: Mapping[str, Any] = json.loads(request.calibration.read_text())
    if "weights" in document or any("scale" in entry for entry in document["tensors"]):
        raise ConfigurationError(
            f"{request.calibration}: has the steps of a model that was published in int8",
            hint="Repair the model that it was made from.",
        )
    return document


def _recorded(
    engine: HostEngine, request: Request, cfg: Path, weights: Path, method: str
) -> Mapping[str, Any]:
    return calibrate(
        engine,
        cfg=cfg,
        weights=weights,
        dataset=request.dataset,
        method=method,
        limit=request.limit,
        resize=request.resize,
        options=request.options,
        origin=request.cfg,
    ).document()


def _spans(document: Mapping[str, Any]) -> dict[int, Floats]:
    """The lengths of the channels' ranges, which include zero."""
    return {
        entry["layer"]: np.maximum(entry["channel_max"], 0) - np.minimum(entry["channel_min"], 0)
        for entry in document["tensors"]
    }


def _pictures(engine: HostEngine, request: Request) -> Floats:
    """[pictures, channels, height, width] as the network takes them."""
    model = load_model(engine, request.cfg, request.weights)
    chunks = prepare_chunks(_paths(request), model.input, model.pictures(request.resize), _PREPARED)
    return np.stack([sample.tensor for samples in chunks for sample in samples])


def _paths(request: Request) -> Sequence[Path]:
    return read_pictures(request.dataset, split="train")[: request.limit]


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="latin-1", newline="")
