"""Trains the digit detector: reads digits.cfg, draws scenes, learns, writes digits.cfg and digits.weights.

    python cfg/digits/train.py              trains on the CPU; some 20 minutes on two cores
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
LEARNING_RATE = 2e-3

Pixels = NDArray[np.uint8]
Floats = NDArray[np.float32]


def draw_some(heads: Sequence[Head], numbers: range) -> tuple[Pixels, list[Floats]]:
    """Training scenes: pixels [len(numbers), SIZE, SIZE, 3] and each head's targets."""
    drawn = list(scenes(load_digits("train"), TRAINING_SEED, numbers.start, len(numbers)))
    wanted = [targets(scene.boxes, heads) for scene in drawn]
    return np.stack([scene.pixels for scene in drawn]), [np.stack(one) for one in zip(*wanted, strict=True)]


def draw(heads: Sequence[Head], count: int) -> tuple[Pixels, list[Floats]]:
    """The first `count` training scenes, drawn by a process per core."""
    shares = [range(first, min(first + 256, count)) for first in range(0, count, 256)]
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


def train(text: str, steps: int, count: int) -> Any:
    """A Keras model of the cfg `text`, trained for `steps` batches out of `count` scenes."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(TRAINING_SEED)
    sections = darknet.read_cfg(text)
    heads = read_heads(sections)
    model = darknet.build(sections)
    rate = keras.optimizers.schedules.CosineDecay(
        LEARNING_RATE / 20, steps, warmup_target=LEARNING_RATE, warmup_steps=max(1, min(200, steps // 10))
    )
    optimizer = keras.optimizers.AdamW(rate, weight_decay=1e-4, clipnorm=10.0)

    @tf.function(reduce_retracing=True)  # type: ignore[untyped-decorator]
    def step(pixels: Any, wanted: Any) -> Any:
        with tf.GradientTape() as tape:
            tensors = model(pixels, training=True)
            total = tf.add_n([loss(*one) for one in zip(heads, wanted, tensors, strict=True)])
        gradients = tape.gradient(total, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return total

    print(f"drawing {count} scenes", flush=True)
    pixels, wanted = draw(heads, count)
    started, recent = time.monotonic(), deque[float](maxlen=50)
    rng = np.random.default_rng(TRAINING_SEED)
    for number, batch in enumerate(batches(pixels, wanted, steps, rng), start=1):
        recent.append(float(step(*batch)))
        if number % 50 == 0 or number == steps:
            elapsed = time.monotonic() - started
            left = elapsed / number * (steps - number)
            print(
                f"step {number}/{steps}  loss {np.mean(recent):.3f}  "
                f"{elapsed / 60:.1f} min, {left / 60:.1f} min left",
                flush=True,
            )
    return model


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
    parser.add_argument("--steps", type=int, default=6000, help="batches of 16 scenes (default: %(default)s)")
    parser.add_argument(
        "--scenes", type=int, default=8192, help="scenes to learn from (default: %(default)s)"
    )
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
    model = train(text, options.steps, options.scenes)
    (options.out / "digits.cfg").write_text(text)
    darknet.write_weights(options.out / "digits.weights", model, options.steps * BATCH)
    print(f"wrote {options.out / 'digits.weights'}")


if __name__ == "__main__":
    main()
