"""The program that trains: TensorFlow in a process of its own.

    python -m harness.training.program FOLDER

FOLDER holds what `finetune.py` writes: request.json, the model's files and the pictures. The program prints a
JSON object a line: what it does, and how far it is. It writes the best numbers so far to best.npz, so that
whoever started it may end it at any time.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from harness.accuracy.heads import DetectionHead, read_outputs
from harness.exporting.calibration import Calibration, read_calibration
from harness.exporting.network import Network, read_network
from harness.exporting.precision_plan import plan_precisions
from harness.exporting.weights_file import Floats
from harness.training.detectors import CellOutputs
from harness.training.emulation import Emulation
from harness.training.objective import distillation, of_labels
from harness.training.schedule import Schedule
from harness.training.targets import TARGET, Grid, Objects, mirrored, targets
from harness.training.variables import values_of, variables_of

_CLIP = 10.0  # norm of all gradients
_REPORT_SECONDS = 1.0


class Training:
    """A student that computes as the engine does, and its teacher in fp32."""

    def __init__(self, folder: Path, request: Mapping[str, Any]) -> None:
        self._folder, self._request = folder, request
        self._started = self._first_step = time.monotonic()
        cfg = folder / "student.cfg"
        network = read_network(cfg, folder / "student.weights")
        calibration = read_calibration(folder / "student.json", network)
        formats = plan_precisions(network, calibration)
        self._variables = variables_of(network, formats, calibration)
        student = Emulation(network, formats, self._variables)
        teacher = _in_fp32(folder / "teacher.cfg", folder / "teacher.weights")
        self._heads = read_outputs(cfg).heads
        self._cells = [CellOutputs.from_json(words) for words in request["cells"]]
        self._pictures = np.load(folder / "pictures.npy", mmap_mode="r", allow_pickle=False)
        self._objects = _objects(folder / "labels.npz") if request["labels"] else []
        self._grids = _grids(network, self._heads) if request["labels"] else []
        self._held_out = len(self._pictures) - request["held_out"]  # the first of them
        self._schedule = Schedule(rate=request["rate"])
        self._optimizer = tf.keras.optimizers.Adam(request["rate"], global_clipnorm=_CLIP)
        self._optimizer.build(self._variables.all)
        signature = _signature(network, self._grids)
        # As functions of their own, the networks are traced once, and not for each use.
        self._found, self._taught = (
            tf.function(each.heads, input_signature=signature[:1], autograph=False)
            for each in (student, teacher)
        )
        self._step = tf.function(self._learn, input_signature=signature, autograph=False)
        self._measure = tf.function(self._loss, input_signature=signature, autograph=False)

    def run(self) -> None:
        """Trains until the steps are made or the time is over."""
        self._judge(epoch=0)
        batch, epochs = self._request["batch"], self._request["epochs"]
        rng = np.random.default_rng(self._request["seed"])
        per_epoch = -(-self._held_out // batch)
        total, done, told = epochs * per_epoch, 0, 0.0
        for epoch in range(1, epochs + 1):
            order = rng.permutation(self._held_out)
            for first in range(0, self._held_out, batch):
                part = self._part(done / total)
                if part >= 1:
                    break
                self._optimizer.learning_rate = self._schedule.rate_at(part, done)
                loss = float(self._step(*self._batch(np.sort(order[first : first + batch]), rng)))
                done += 1
                if done == 1:
                    self._first_step = told = time.monotonic()  # it made the graph, which took seconds
                if time.monotonic() - told > _REPORT_SECONDS:
                    told = time.monotonic()
                    part = min(self._part(done / total), 1.0)
                    _say(step=done, part=part, loss=loss, left=self._left(done, total))
            loss = self._judge(epoch=epoch)
            if self._part(done / total) >= 1:
                break
            if self._schedule.undoes(loss):
                self._undo()
        _say(step=done)

    def _undo(self) -> None:
        """Goes back to the best numbers, without the momentum that led away from them."""
        self._variables.set_changes(self._best)
        forget_momentum(self._optimizer)

    def _part(self, of_steps: float) -> float:
        """How much of the training is over: of its steps, or of its time if that is more."""
        seconds = self._request["seconds"]
        return max(of_steps, (time.monotonic() - self._started) / seconds if seconds else 0.0)

    def _left(self, done: int, total: int) -> float:
        """Seconds, at the speed of all steps but the first."""
        now = time.monotonic()
        by_steps = (now - self._first_step) / max(done - 1, 1) * (total - done)
        seconds = self._request["seconds"]
        return min(by_steps, max(self._started + seconds - now, 0)) if seconds else by_steps

    def _judge(self, *, epoch: int) -> float:
        """The loss on the pictures held out; the numbers are written if it is the least."""
        places = range(self._held_out, len(self._pictures))
        batch = self._request["batch"]
        losses, sizes = [], []
        for first in places[::batch]:
            chosen = np.arange(first, min(first + batch, places.stop))
            losses.append(float(self._measure(*self._batch(chosen, None))))
            sizes.append(len(chosen))
        loss = float(np.average(losses, weights=sizes))
        if self._schedule.is_best(loss) or epoch == 0:
            self._best = self._variables.changes()
            part = self._folder / "best.part.npz"
            np.savez(part, allow_pickle=False, **values_of(self._variables))
            part.replace(self._folder / "best.npz")
        _say(epoch=epoch, held_out=loss)
        return loss

    def _batch(self, chosen: Any, rng: np.random.Generator | None) -> tuple[Floats, list[Floats]]:
        pictures = np.ascontiguousarray(self._pictures[chosen].transpose(0, 2, 3, 1))
        objects = [self._objects[place] for place in chosen] if self._objects else []
        if rng is not None and self._request["mirror"]:
            turned = rng.random(len(pictures)) < 0.5
            pictures[turned] = pictures[turned, :, ::-1]
            objects = [mirrored(each) if turn else each for each, turn in zip(objects, turned, strict=False)]
        return pictures, targets(objects, self._grids) if self._grids else []

    def _loss(self, pictures: Any, wanted: Sequence[Any]) -> Any:
        return self._loss_against(self._taught(pictures), pictures, wanted)

    def _loss_against(self, taught: Mapping[int, Any], pictures: Any, wanted: Sequence[Any]) -> Any:
        found = self._found(pictures)
        total = distillation(found, taught, self._heads, self._cells)
        for grid, each in zip(self._grids, wanted, strict=True):
            total += of_labels(grid, found[grid.head.source], each)
        return total

    def _learn(self, pictures: Any, wanted: Sequence[Any]) -> Any:
        taught = self._taught(pictures)
        variables = self._variables.all
        with tf.GradientTape() as tape:
            loss = self._loss_against(taught, pictures, wanted)
        gradients = tape.gradient(loss, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        self._optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss


def forget_momentum(optimizer: Any) -> None:
    """Sets the first moments of Keras's Adam to zero. How large gradients are, it still knows."""
    for variable in optimizer.variables:
        if variable.name.endswith("_momentum"):
            variable.assign(tf.zeros_like(variable))


def _in_fp32(cfg: Path, weights: Path) -> Emulation:
    network = read_network(cfg, weights)
    formats = plan_precisions(network, Calibration())
    return Emulation(network, formats, variables_of(network, formats, Calibration()))


def _objects(file: Path) -> list[Objects]:
    """By picture."""
    with np.load(file, allow_pickle=False) as found:
        ends = np.cumsum(found["counts"])[:-1]
        pairs = zip(np.split(found["boxes"], ends), np.split(found["classes"], ends), strict=True)
        return [Objects(boxes=boxes, classes=classes) for boxes, classes in pairs]


def _grids(network: Network, heads: Sequence[DetectionHead]) -> list[Grid]:
    _, height, width = network.input_shape
    shapes = [network.shape_of(head.source) for head in heads]
    return [
        Grid(head=head, rows=shape[1], columns=shape[2], width=width, height=height)
        for head, shape in zip(heads, shapes, strict=True)
    ]


def _signature(network: Network, grids: Sequence[Grid]) -> list[Any]:
    """Of a batch of any size: without it, a last batch that is smaller would need a graph of its own."""
    channels, height, width = network.input_shape
    wanted = [(grid.rows, grid.columns, len(grid.head.anchors), TARGET) for grid in grids]
    pictures, *targets_ = (tf.TensorSpec((None, *shape)) for shape in ((height, width, channels), *wanted))
    return [pictures, targets_]


def _say(**words: object) -> None:
    print(json.dumps(words), flush=True)


def main(folder: Path) -> None:
    request = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    tf.config.threading.set_intra_op_parallelism_threads(request["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.keras.utils.set_random_seed(request["seed"])
    Training(folder, request).run()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    sys.stdout.flush()
    os._exit(0)  # TensorFlow's own end takes seconds
