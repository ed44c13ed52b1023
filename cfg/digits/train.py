"""Trains the digit detector: reads digits.cfg, draws scenes, learns, writes digits.cfg and digits.weights.

    python cfg/digits/train.py              trains on the CPU; under 20 minutes on two cores
    python cfg/digits/train.py --data-only  only draws the held-out and the calibration scenes again

Needs the package's `train` extra (TensorFlow, scikit-learn). Seeds are fixed. The scenes come out the same
every time; the weights only nearly so, because TensorFlow's threads add in no fixed order: expect the mAP of
two trainings to differ by about a point.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import shutil
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import darknet
import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scenes import CLASSES, Split, load_digits, scenes
from yolo import Head, fit_anchors, loss, read_heads, targets

HERE = Path(__file__).resolve().parent
TRAINING_SEED, CALIBRATION_SEED, HELD_OUT_SEED = 1, 2, 3
BATCH = 16
# Training scenes hold more digits than the others: at the same cost they say more about classes.
MOST_TRAINING_DIGITS = 9

Pixels = NDArray[np.uint8]
Floats = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A part of the training: how many batches of which training scenes, and what weighs how much."""

    steps: int
    scenes: range
    learning_rate: float  # at its highest, after the warm-up; from there a half cosine to 0
    box_weight: float
    ranked: bool


# First what a digit is, then, on scenes not seen before, exactly where.
PHASES = (
    Phase(steps=6000, scenes=range(8192), learning_rate=3e-3, box_weight=2, ranked=False),
    Phase(steps=3000, scenes=range(8192, 16384), learning_rate=1.5e-3, box_weight=6, ranked=True),
)


def draw_some(heads: Sequence[Head], numbers: range) -> tuple[Pixels, list[Floats]]:
    """Training scenes: pixels [len(numbers), SIZE, SIZE, 3] and each head's targets."""
    drawn = list(
        scenes(load_digits("train"), TRAINING_SEED, numbers.start, len(numbers), MOST_TRAINING_DIGITS)
    )
    wanted = [targets(scene.boxes, heads) for scene in drawn]
    return np.stack([scene.pixels for scene in drawn]), [np.stack(one) for one in zip(*wanted, strict=True)]


def draw(heads: Sequence[Head], numbers: range) -> tuple[Pixels, list[Floats]]:
    """The same, by a process per core."""
    shares = [numbers[first : first + 256] for first in range(0, len(numbers), 256)]
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as drawers:
        parts = list(drawers.map(partial(draw_some, heads), shares))
    pixels = np.concatenate([part[0] for part in parts])
    return pixels, [np.concatenate(one) for one in zip(*(part[1] for part in parts), strict=True)]


def batches(
    pixels: Pixels, wanted: Sequence[Floats], count: int, rng: np.random.Generator
) -> Iterator[tuple[Floats, list[Floats]]]:
    """`count` batches: pixels / 255 and targets, in a new order and with other colours in every round."""
    order: list[int] = []
    for _ in range(count):
        if len(order) < BATCH:
            order = list(rng.permutation(len(pixels)))
        chosen, order = order[:BATCH], order[BATCH:]
        recoloured = [pixels[i][..., rng.permutation(3)] ^ np.uint8(255 * rng.integers(2)) for i in chosen]
        yield np.stack(recoloured).astype(np.float32) / np.float32(255), [one[chosen] for one in wanted]


def train(text: str, phases: Sequence[Phase]) -> Any:
    """A Keras model of the cfg `text`, trained."""
    import keras
    from network import build

    keras.utils.set_random_seed(TRAINING_SEED)
    sections = darknet.read_cfg(text)
    model = build(sections)
    for number, phase in enumerate(phases):
        print(f"phase {number + 1} of {len(phases)}: {phase.steps} steps", flush=True)
        learn(model, read_heads(sections), phase, np.random.default_rng(TRAINING_SEED + number))
    return model


def learn(model: Any, heads: Sequence[Head], phase: Phase, rng: np.random.Generator) -> None:
    """Trains the model for one phase and prints the progress."""
    import keras
    import tensorflow as tf

    rate = keras.optimizers.schedules.CosineDecay(
        phase.learning_rate / 20,
        phase.steps,
        warmup_target=phase.learning_rate,
        warmup_steps=max(1, min(200, phase.steps // 10)),
    )
    optimizer = keras.optimizers.AdamW(rate, weight_decay=1e-4, clipnorm=10.0)
    measure = partial(loss, box_weight=phase.box_weight, ranked=phase.ranked)

    @tf.function(reduce_retracing=True)  # type: ignore[untyped-decorator]
    def step(pixels: Any, wanted: Any) -> Any:
        with tf.GradientTape() as tape:
            tensors = model(pixels, training=True)
            total = tf.add_n([measure(*one) for one in zip(heads, wanted, tensors, strict=True)])
        gradients = tape.gradient(total, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return total

    print(f"drawing {len(phase.scenes)} scenes", flush=True)
    pixels, wanted = draw(heads, phase.scenes)
    started, recent = time.monotonic(), deque[float](maxlen=50)
    for number, batch in enumerate(batches(pixels, wanted, phase.steps, rng), start=1):
        recent.append(float(step(*batch)))
        if number % 50 == 0 or number == phase.steps:
            elapsed = time.monotonic() - started
            left = elapsed / number * (phase.steps - number)
            print(
                f"step {number}/{phase.steps}  loss {np.mean(recent):.3f}  "
                f"{elapsed / 60:.1f} min, {left / 60:.1f} min left",
                flush=True,
            )


def write_scenes(folder: Path, split: Split, seed: int, count: int) -> None:
    """Writes scenes into folder/images as JPEG and labels into folder/labels; replaces what is there."""
    images, labels = folder / "images", folder / "labels"
    for old in (images, labels):
        shutil.rmtree(old, ignore_errors=True)
        old.mkdir(parents=True)
    for index, scene in enumerate(scenes(load_digits(split), seed, 0, count)):
        Image.fromarray(scene.pixels).save(images / f"{index:03}.jpg", quality=85)
        lines = "".join(box.yolo() + "\n" for box in scene.boxes)
        (labels / f"{index:03}.txt").write_text(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the digit detector that ships.")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="TensorFlow's threads")
    parser.add_argument(
        "--out", type=Path, default=HERE, help="where the files go (default: beside this script)"
    )
    parser.add_argument("--data-only", action="store_true", help="only draw the scenes that ship")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    write_scenes(options.out / "data", "held-out", HELD_OUT_SEED, 200)
    write_scenes(options.out / "calibration", "train", CALIBRATION_SEED, 32)
    (options.out / "digits.names").write_text("".join(f"{name}\n" for name in CLASSES))
    if options.data_only:
        return

    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    sample = scenes(load_digits("train"), TRAINING_SEED, 0, 500)
    boxes = [box for scene in sample for box in scene.boxes]
    anchors = fit_anchors(boxes, 6, np.random.default_rng(TRAINING_SEED))
    line = "anchors=" + ", ".join(f"{width},{height}" for width, height in anchors)
    text = re.sub(r"(?m)^anchors=.*$", line, (HERE / "digits.cfg").read_text())
    model = train(text, PHASES)
    (options.out / "digits.cfg").write_text(text)
    darknet.write_weights(options.out / "digits.weights", model, sum(phase.steps for phase in PHASES) * BATCH)
    print(f"wrote {options.out / 'digits.weights'}")


if __name__ == "__main__":
    main()
