"""A stand-in for the engine that loses what a test says for each assignment of precisions."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from harness.config.darknet_cfg import PRECISIONS, read_cfg
from harness.runtimes.engine import EngineOptions, Forward, HostEngine
from harness.search.assignment import Assignment
from harness.search.evaluator import Evaluator

LAYERS = 3  # with weights: 0, 1 and 2
BRIGHTNESSES = (51, 102, 153, 204)  # of the pictures: 0.2 to 0.8; class 1 from above 0.5

CFG = (
    "[net]\nwidth=4\nheight=4\nchannels=3\n"
    + "".join(f"[convolutional]\nname=layer{index}\nfilters=2\nsize=1\n" for index in range(LAYERS))
    + "[avgpool]\n[softmax]\n"
)

FILES = {"cfg": "net.cfg", "weights": "net.weights", "dataset": "data", "calibration": "ranges.json"}

Loss = Callable[[Assignment], float]


def lossless(_assignment: Assignment) -> float:
    return 0.0


class LossyEngine(HostEngine):
    """Scores 0.5 for class 0, and the picture's brightness minus the loss of the assignment for class 1."""

    def __init__(self, folder: Path, loss: Loss = lossless) -> None:
        super().__init__(folder / "mpe")
        if not self.executable.exists():
            self.executable.write_text("an engine")
        self.loss = loss
        self.runs: list[Assignment] = []  # one for each batch
        self.before: Callable[[Assignment], object] = lossless  # is called before each batch
        self._guard = threading.Lock()
        self.best = "avx2"

    def arithmetic(self, isa: str | None = None) -> dict[str, Any]:
        return {"isa": isa or self.best, "caches": {}}

    def info(self, cfg: Path) -> dict[str, Any]:
        layers = read_cfg(cfg).layers
        rows = [
            {"index": layer.index, "type": layer.kind, "out": list(layer.out), "precision": layer.precision}
            for layer in layers
        ]
        return {"input": [3, 4, 4], "inputs": [-1], "layers": rows}

    def images_per_chunk(self, cfg: Path, *, layers: bool = False) -> int:
        return 3

    def forward_file(
        self,
        cfg: Path,
        weights: Path,
        batch: Path,
        options: EngineOptions,
        *,
        layers: bool = False,
        digest: bool = False,
    ) -> Forward:
        assignment = Assignment.of(read_cfg(cfg))
        assert options.threads == 1
        assert (options.calibration is not None) == ("int8" in assignment.values())
        self.before(assignment)
        with self._guard:
            self.runs.append(assignment)
        return Forward(heads={LAYERS + 1: self._scores(np.load(batch), assignment)})

    def forward(
        self,
        cfg: Path,
        weights: Path,
        images: npt.NDArray[np.generic],
        options: EngineOptions | None = None,
        *,
        layers: bool = False,
        digest: bool = False,
    ) -> Forward:
        found = self._scores(images, Assignment.of(read_cfg(cfg)))
        return Forward(heads={LAYERS + 1: found}, layers=dict.fromkeys(range(LAYERS + 2), found))

    def bench(self, cfg: Path, weights: Path, options: EngineOptions, **_more: object) -> dict[str, Any]:
        return {"layers": [{"index": index, "ns": 1000 * (index + 1)} for index in range(LAYERS + 2)]}

    def _scores(self, images: npt.NDArray[np.generic], assignment: Assignment) -> npt.NDArray[np.float32]:
        scores = np.full((len(images), 2, 1, 1), 0.5, np.float32)
        scores[:, 1, 0, 0] = images.astype(np.float32).mean(axis=(1, 2, 3)) - self.loss(assignment)
        return scores


def write_model(folder: Path) -> dict[str, Any]:
    """The files of a network, four pictures in a folder for each class, and ranges for int8."""
    (folder / "net.cfg").write_text(CFG)
    parameters = sum(layer.parameters or 0 for layer in read_cfg(folder / "net.cfg").layers)
    (folder / "net.weights").write_bytes(bytes(20 + 4 * parameters))
    (folder / "ranges.json").write_text('{"format": "mpe-calibration", "version": 1, "tensors": []}')
    for number, value in enumerate(BRIGHTNESSES):
        place = folder / "data" / ("bright" if value > 127 else "a dark one")
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((4, 4, 3), value, np.uint8)).save(place / f"{number}.png")
    return {name: folder / path for name, path in FILES.items()}


def evaluate_in_turn(folder: Path, seed: int, held: bool) -> None:
    """What one of several processes with the same storage does: evaluates all assignments in an order of its
    own, with a line in `folder`/runs for each batch, and writes the number that it executed to `folder`/SEED.
    With `held` it stops in the first one."""
    order = [Assignment(dict(enumerate(each))) for each in itertools.product(PRECISIONS, repeat=LAYERS)]
    random.Random(seed).shuffle(order)
    engine = LossyEngine(folder, len)

    def before(assignment: Assignment) -> None:
        with (folder / "runs").open("a") as runs:
            runs.write(f"{seed} {'-'.join(assignment.values())}\n")
        time.sleep(3600 if held and len(set(assignment.values())) > 1 else 0.01)

    engine.before = before
    model: dict[str, Any] = {name: folder / path for name, path in FILES.items()}
    with Evaluator(engine, folder=folder / "kept", options=EngineOptions(threads=2), **model) as evaluator:
        evaluator.evaluate(order)
    (folder / str(seed)).write_text(str(evaluator.executed))
