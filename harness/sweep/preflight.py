"""Checks the files of a sweep that need no engine, before the first engine is built."""

from __future__ import annotations

from pathlib import Path

from harness import console
from harness.accuracy.dataset import read_pictures
from harness.accuracy.evaluate import check_dataset
from harness.accuracy.truth import warning_of_unlabelled
from harness.config.model_files import check_calibration, check_weights
from harness.config.sweep import Calibration, Model, Sweep
from harness.errors import ConfigurationError


def check_files(sweep: Sweep) -> None:
    """Raises ConfigurationError, with the model's line in the sweep file, if a file is missing, has the wrong
    kind, or does not belong to its model."""
    for model in sweep.models:
        try:
            _check(model)
        except ConfigurationError as error:
            raise ConfigurationError(f"{model.place}: {error.message}", hint=error.hint) from None


def _check(model: Model) -> None:
    network = model.network
    if not model.random_weights:
        check_weights(network, model.weights)
    if isinstance(model.calibration, Path):
        check_calibration(network, model.calibration)
    elif isinstance(model.calibration, Calibration) and model.calibration.dataset is not None:
        read_pictures(model.calibration.dataset, split="train")
    if model.dataset is not None:
        data = check_dataset(model.cfg, model.dataset, model.labels).first(model.limit)
        if warning := warning_of_unlabelled(data.path, data.unlabelled, len(data.pictures)):
            console.warn(warning)
