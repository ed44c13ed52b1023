"""Trains a network further for the precisions of its cfg: from a model and pictures to weights and ranges."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import numpy as np

import harness
from harness import console
from harness.accuracy.calibrate import calibrate
from harness.accuracy.dataset import read_dataset, read_pictures, with_split_in_use
from harness.accuracy.model import Model, load_model
from harness.accuracy.output_agreement import OutputNoise
from harness.accuracy.preprocess import Sample, prepare_chunks
from harness.accuracy.truth import Truth
from harness.config.darknet_cfg import read_cfg
from harness.config.policy import BUILT_IN, apply
from harness.errors import ConfigurationError, HarnessError
from harness.exporting.network import read_network
from harness.exporting.weights_file import EPSILON, Floats
from harness.importing.tensorflow_process import ENVIRONMENT
from harness.process_group import process_group
from harness.repair.parameters import Parameters
from harness.runtimes.engine import EngineOptions, HostEngine
from harness.temporary import temporary_folder
from harness.training.detectors import cell_outputs
from harness.training.supported import check_supported

_PREPARED = 8  # pictures at a time
_CALIBRATED = 64  # pictures, for ranges that are not given
_LOG_TAIL = 12  # lines
_RATE_PER_SQUARE = 0.4  # of the heads' noise as a share of their signal
_LEAST_RATE, _MOST_RATE = 3e-4, 0.01
_PARTS = 1000  # of the training, in the progress bar


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to train, on which pictures, and how."""

    cfg: Path  # with the precisions to train for
    weights: Path
    teacher: Path  # weights of the network in fp32
    dataset: Path
    origin: Path  # the user's cfg, if `cfg` is a copy with a policy's precisions
    labels: bool = False  # learn from the data set's labels too
    limit: int = 1000  # pictures
    held_out: int | None = None  # of them, the last ones; None for a fifth, at most 64
    epochs: int = 30
    batch: int = 8
    rate: float | None = None  # None: by the outputs' error
    seed: int = 0
    mirror: bool = True
    seconds: float | None = None
    resize: str | None = None
    calibration: Path | None = None
    options: EngineOptions = field(default_factory=lambda: EngineOptions(threads=os.cpu_count() or 1))


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """The loss on the pictures held out, after so many epochs."""

    number: int
    loss: float


@dataclass(frozen=True, kw_only=True)
class Trained:
    """The contents of the files, and what the training reached."""

    cfg: str
    weights: bytes
    calibration: Mapping[str, Any]
    pictures: int  # learned from
    held_out: int
    epochs: tuple[Epoch, ...]
    steps: int
    rate: float  # at its highest
    before: tuple[OutputNoise, ...]  # the heads on the pictures held out, computed by the engine
    after: tuple[OutputNoise, ...]
    interrupted: bool

    @property
    def best(self) -> Epoch:
        """The epoch whose numbers are kept."""
        return _best(self.epochs)


def check(request: Request) -> None:
    """Raises ConfigurationError for a network that cannot be trained, and without TensorFlow."""
    check_supported(read_network(request.cfg, request.weights))
    if find_spec("tensorflow") is None:
        raise ConfigurationError(
            "the Python package tensorflow, which trains, is not installed",
            hint="Install it with `pip install 'harness[train]'`.",
        )


def finetune(engine: HostEngine, request: Request) -> Trained:
    """Trains what `check` accepts. Raises ConfigurationError for bad input."""
    ends = None if request.seconds is None else time.monotonic() + request.seconds
    text = read_cfg(request.cfg).text
    parameters = Parameters(request.cfg, request.weights, EPSILON)
    pictures = _Pictures(engine, request)
    with temporary_folder("training") as folder:
        _write_text(folder / "student.cfg", text)
        _write_text(folder / "teacher.cfg", apply(BUILT_IN["fp32"], text))
        shutil.copyfile(request.weights, folder / "student.weights")
        shutil.copyfile(request.teacher, folder / "teacher.weights")
        document = _ranges(engine, request, pictures)
        (folder / "student.json").write_text(json.dumps(document), encoding="utf-8")
        pictures.write(folder)
        before = pictures.noise(folder / "student.cfg", folder / "student.weights", folder)
        rate = request.rate or suitable_rate(before)
        words = _words(request, pictures, ends) | {"rate": rate}
        (folder / "request.json").write_text(json.dumps(words), encoding="utf-8")
        epochs, steps, interrupted = _trained(folder)
        with np.load(folder / "best.npz", allow_pickle=False) as best:
            values = dict(best)
        _set_filters(parameters, values)
        document = _with_ranges(document, values)
        (folder / "student.weights").write_bytes(parameters.data())
        (folder / "student.json").write_text(json.dumps(document), encoding="utf-8")
        return Trained(
            cfg=text,
            weights=parameters.data(),
            calibration=document,
            pictures=pictures.learned,
            held_out=pictures.held_out,
            epochs=epochs,
            steps=steps,
            rate=rate,
            before=before,
            after=pictures.noise(folder / "student.cfg", folder / "student.weights", folder),
            interrupted=interrupted,
        )


class _Pictures:
    """The pictures to learn from, and behind them those held out."""

    def __init__(self, engine: HostEngine, request: Request) -> None:
        self._engine, self._request = engine, request
        self._model: Model = load_model(engine, request.cfg, request.weights, origin=request.origin)
        self.cells = cell_outputs(self._model)
        dataset = with_split_in_use(request.dataset, "train")
        self._truths: list[Truth | None] = []
        if request.labels:
            self._check_heads()
            read = read_dataset(dataset, classes=self._model.classes).first(request.limit)
            if read.kind != "boxes":
                raise ConfigurationError(f"{dataset}: has no boxes to learn from", hint="Omit --labels.")
            self.paths = [picture.path for picture in read.pictures]
            self._truths = [picture.truth for picture in read.pictures]
        else:
            self.paths = read_pictures(dataset, split="train")[: request.limit]
        wanted = request.held_out
        self.held_out = min(max(len(self.paths) // 5, 1), 64) if wanted is None else wanted
        self.learned = len(self.paths) - self.held_out
        if self.learned < 1:
            raise ConfigurationError(
                f"{dataset}: of {len(self.paths)} pictures {self.held_out} are held out, and none is left",
                hint="Give more pictures, or a smaller --held-out.",
            )

    def _check_heads(self) -> None:
        heads = self._model.outputs.heads
        if not heads or any(head.kind != "yolo" or head.new_coords for head in heads):
            raise ConfigurationError(
                f"{self._request.origin}: only heads of the kind yolo, without new_coords, learn from labels",
                hint="Omit --labels: the network then learns from itself in fp32.",
            )

    def write(self, folder: Path) -> None:
        """pictures.npy, float32 [n, channels, height, width], and labels.npz."""
        shape = (len(self.paths), *self._model.input)
        out = folder / "pictures.npy"
        written = np.lib.format.open_memmap(out, mode="w+", dtype=np.float32, shape=shape)
        boxes: list[Floats] = []
        with console.progress("preparing pictures", total=len(self.paths)) as bar:
            place = 0
            for samples in self._prepared():
                for sample in samples:
                    written[place] = sample.tensor
                    if self._truths:
                        boxes.append(_in_input(self._truths[place], sample))
                    place += 1
                bar.advance(len(samples))
        written.flush()
        if self._truths:
            np.savez(
                folder / "labels.npz",
                counts=[len(each) for each in boxes],
                boxes=np.concatenate(boxes),
                classes=np.concatenate([truth.classes if truth else [] for truth in self._truths]),
            )

    def _prepared(self) -> Iterator[list[Sample]]:
        rules = self._model.pictures(self._request.resize)
        return prepare_chunks(self.paths, self._model.input, rules, _PREPARED)

    def noise(self, cfg: Path, weights: Path, folder: Path) -> tuple[OutputNoise, ...]:
        """The heads' errors on the pictures held out, against the teacher."""
        pictures = np.load(folder / "pictures.npy", mmap_mode="r")[self.learned :]
        plain = replace(self._request.options, calibration=None)
        wanted = self._engine.forward(
            folder / "teacher.cfg", folder / "teacher.weights", pictures, plain
        ).heads
        options = replace(self._request.options, calibration=folder / "student.json")
        found = self._engine.forward(cfg, weights, pictures, options).heads
        rows = [OutputNoise(name=str(index), shape=wanted[index].shape[1:]) for index in sorted(wanted)]
        for row, index in zip(rows, sorted(wanted), strict=True):
            for one, other in zip(found[index], wanted[index], strict=True):
                row.add(one, other)
        return tuple(rows)


def _in_input(truth: Truth | None, sample: Sample) -> Floats:
    """Boxes of a picture, in fractions of the network's input."""
    place = sample.placement
    boxes = np.zeros((0, 4)) if truth is None else truth.boxes
    scale = np.array([place.width, place.height] * 2)
    return np.asarray(boxes * scale + [place.left, place.top, 0, 0], np.float32)


def _ranges(engine: HostEngine, request: Request, pictures: _Pictures) -> Mapping[str, Any]:
    if request.calibration is not None:
        document: Mapping[str, Any] = json.loads(request.calibration.read_text(encoding="utf-8"))
        if any("scale" in entry for entry in document["tensors"]):
            raise ConfigurationError(
                f"{request.calibration}: has the steps of a model that was published in int8",
                hint="Train the model in float that it was made from.",
            )
        return document
    return calibrate(
        engine,
        cfg=request.cfg,
        weights=request.weights,
        dataset=request.dataset,
        method="mse",
        limit=min(_CALIBRATED, pictures.learned),
        resize=request.resize,
        options=request.options,
        origin=request.origin,
    ).document()


def suitable_rate(heads: Sequence[OutputNoise]) -> float:
    """A learning rate by the heads' noise as a share of their signal: high where int8 destroys them."""
    shares = [0.0 if head.sqnr_db is None else 10 ** (-head.sqnr_db / 10) for head in heads]
    share = sum(shares) / len(shares)
    return min(max(_RATE_PER_SQUARE * share**2, _LEAST_RATE), _MOST_RATE)


def _words(request: Request, pictures: _Pictures, ends: float | None) -> dict[str, Any]:
    """For the program."""
    if ends is not None and ends <= time.monotonic():
        raise ConfigurationError(
            "the budget was used up before the training began", hint="Give more time with --budget."
        )
    return {
        "labels": request.labels,
        "cells": [asdict(each) for each in pictures.cells],
        "held_out": pictures.held_out,
        "epochs": request.epochs,
        "batch": request.batch,
        "seed": request.seed,
        "mirror": request.mirror,
        "threads": request.options.threads,
        "seconds": None if ends is None else ends - time.monotonic(),
    }


def _trained(folder: Path) -> tuple[tuple[Epoch, ...], int, bool]:
    """Runs the program: the epochs, the steps made, and whether the user has ended it."""
    seen = _Seen()
    interrupted = False
    with (folder / "log.txt").open("w+", encoding="utf-8", errors="replace") as log:
        with _program(folder, log) as process, console.progress("starting TensorFlow", total=_PARTS) as bar:
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    seen.take(json.loads(line), bar)
                failed = process.wait() != 0
            except KeyboardInterrupt:
                interrupted, failed = True, False
        if failed:
            raise HarnessError(f"TensorFlow cannot train the network:\n{_tail(log)}")
    if not seen.epochs:
        raise KeyboardInterrupt
    if not all(math.isfinite(epoch.loss) for epoch in seen.epochs):
        console.warn("the training diverged: a smaller --rate may help")
    return tuple(seen.epochs), seen.steps, interrupted


class _Seen:
    """What the program has told so far."""

    def __init__(self) -> None:
        self.epochs: list[Epoch] = []
        self.steps = 0
        self._shown = 0

    def take(self, told: Mapping[str, Any], bar: console.Progress) -> None:
        """A line."""
        self.steps = told.get("step", self.steps)
        if "held_out" in told:
            self.epochs.append(Epoch(number=told["epoch"], loss=told["held_out"]))
            bar.describe(_described(self.epochs))
        if "left" in told:
            bar.describe(f"{_described(self.epochs)}, {_time(told['left'])} left")
            part = int(_PARTS * told["part"])
            bar.advance(part - self._shown)
            self._shown = part


def _tail(log: IO[str]) -> str:
    """The last lines of TensorFlow's log."""
    log.seek(0)
    return "\n".join(f"  | {line.rstrip()[:300]}" for line in log.readlines()[-_LOG_TAIL:])


def _best(epochs: Sequence[Epoch]) -> Epoch:
    return min(epochs, key=lambda epoch: epoch.loss if math.isfinite(epoch.loss) else math.inf)


def _described(epochs: list[Epoch]) -> str:
    best = _best(epochs)
    return (
        f"training: loss on held-out pictures {epochs[0].loss:.4g} at first, "
        f"{best.loss:.4g} after {best.number} epochs"
    )


def _time(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


@contextmanager
def _program(folder: Path, log: IO[str]) -> Iterator[subprocess.Popen[str]]:
    """The program that trains, which is ended with the block."""
    root = str(Path(harness.__file__).parent.parent)
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH", ""))))
    with process_group() as group:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "harness.training.program", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            encoding="utf-8",
            env=os.environ | ENVIRONMENT | {"PYTHONPATH": path},
            process_group=group,
        )
        with process:
            try:
                yield process
            finally:
                process.kill()
                process.wait()


def _set_filters(parameters: Parameters, values: Mapping[str, Floats]) -> None:
    for layer in parameters.convolutions:
        if f"weights {layer.index}" in values:
            weights = values[f"weights {layer.index}"]
            shape = parameters.weights(layer).shape
            parameters.set_folded(layer, weights.reshape(shape), values[f"bias {layer.index}"])


def _with_ranges(document: Mapping[str, Any], values: Mapping[str, Floats]) -> Mapping[str, Any]:
    """A calibration with the trained ranges in place of the recorded ones."""
    tensors = []
    for entry in document["tensors"]:
        changed = dict(entry)
        for kind, low, high in (("tensor", "min", "max"), ("channels", "channel_min", "channel_max")):
            for end, key in (("low", low), ("high", high)):
                if (trained := values.get(f"{end} {kind} {entry['layer']}")) is not None:
                    changed[key] = trained.tolist()
        tensors.append(changed)
    return {**document, "tensors": tensors}


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="latin-1", newline="")
