"""What the detector's heads shall say about a scene, and the loss that measures how far they are from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import darknet
import numpy as np
from numpy.typing import NDArray
from scenes import CLASSES, SIZE, Box

# Of an anchor's overlap with a digit, both centred: from the first on the anchor has to find the digit, below
# the second it must stay silent, between them it may do either.
MATCH, IGNORE = 0.5, 0.3

Floats = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Head:
    """A yolo layer: cells both ways, and its anchors [A, 2] in pixels."""

    cells: int
    anchors: Floats


def fit_anchors(boxes: Sequence[Box], count: int, rng: np.random.Generator) -> NDArray[np.int_]:
    """The k-means centres [count, 2] of box sizes, nearest meaning largest overlap, from small to large."""
    sizes = np.array([(box.width, box.height) for box in boxes], np.float32)
    centres = sizes[rng.choice(len(sizes), count, replace=False)]
    for _ in range(50):
        nearest = _overlap(sizes, centres).argmax(1)
        centres = np.array([np.median(sizes[nearest == i], axis=0) for i in range(count)], np.float32)
    return np.round(centres[np.argsort(centres.prod(1))]).astype(int)


def _overlap(sizes: Floats, anchors: Floats) -> Floats:
    """Intersection over union [N, A] of boxes [N, 2] and anchors [A, 2] that share their centre."""
    common = np.minimum(sizes[:, None], anchors[None]).prod(2)
    union = sizes.prod(1)[:, None] + anchors.prod(1)[None] - common
    return np.asarray(common / union, np.float32)


def read_heads(sections: list[darknet.Section]) -> list[Head]:
    """The yolo layers; the first sees the coarsest cells, 32 pixels wide, each next one half of that."""
    yolos = [section for section in sections if section.kind == "yolo"]
    heads = []
    for place, yolo in enumerate(yolos):
        anchors = np.array(yolo.numbers("anchors"), np.float32).reshape(-1, 2)
        heads.append(Head(cells=SIZE // 32 * 2**place, anchors=anchors[yolo.numbers("mask")]))
    return heads


def targets(boxes: Sequence[Box], heads: Sequence[Head]) -> list[Floats]:
    """What each head shall say, [cells, cells, A, 7].

    The seven: the box's centre and size in pixels, objectness, the weight of that, class.
    """
    results = [np.zeros((h.cells, h.cells, len(h.anchors), 7), np.float32) for h in heads]
    for result in results:
        result[..., 5] = 1
    if not boxes:
        return results
    sizes = np.array([(box.width, box.height) for box in boxes], np.float32)
    overlaps = [_overlap(sizes, head.anchors) for head in heads]
    best = np.concatenate(overlaps, axis=1).max(1)
    for head, result, overlap in zip(heads, results, overlaps, strict=True):
        for box, row, most in zip(boxes, overlap, best, strict=True):
            x, y = box.left + box.width / 2, box.top + box.height / 2
            cell = result[int(y * head.cells / SIZE), int(x * head.cells / SIZE)]
            for anchor, share in zip(cell, row, strict=True):
                if share >= MATCH or share == most:
                    anchor[:] = (x, y, box.width, box.height, 1, 1, box.label)
                elif share >= IGNORE and anchor[4] == 0:
                    anchor[5] = 0
    return results


def loss(head: Head, wanted: Any, tensor: Any, *, box_weight: float, ranked: bool) -> Any:
    """The loss of one head per digit: boxes, objectness, classes.

    Objectness shall be 1 where a digit is, or, if `ranked`, the overlap of the box found there with the
    digit's, so that of several boxes around a digit the best has the highest score.
    """
    import tensorflow as tf

    tensor = tf.reshape(tensor, (-1, head.cells, head.cells, len(head.anchors), 5 + len(CLASSES)))
    stride = SIZE / head.cells
    column, row = tf.meshgrid(tf.range(float(head.cells)), tf.range(float(head.cells)))
    corner = tf.stack([column, row], axis=-1)[None, :, :, None]
    centre = (tf.sigmoid(tensor[..., 0:2]) + corner) * stride
    size = tf.exp(tf.clip_by_value(tensor[..., 2:4], -4.0, 4.0)) * head.anchors
    found, weight = wanted[..., 4], wanted[..., 5]
    overlap, apart = _compare(centre, size, wanted[..., 0:2], wanted[..., 2:4])
    box = found * (1 - overlap + apart)
    present = found * tf.stop_gradient(overlap) if ranked else found
    objectness = weight * tf.nn.sigmoid_cross_entropy_with_logits(present, tensor[..., 4])
    names = tf.one_hot(tf.cast(wanted[..., 6], tf.int32), len(CLASSES))
    classes = found[..., None] * tf.nn.sigmoid_cross_entropy_with_logits(names, tensor[..., 5:])
    total = box_weight * tf.reduce_sum(box) + tf.reduce_sum(objectness) + 2 * tf.reduce_sum(classes)
    return total / (tf.reduce_sum(found) + 1)


def _compare(centre: Any, size: Any, true_centre: Any, true_size: Any) -> tuple[Any, Any]:
    """Two boxes' overlap, and (distance of their centres / diagonal of the frame around both)^2.

    1 - the first + the second is known as the DIoU loss.
    """
    import tensorflow as tf

    low, high = centre - size / 2, centre + size / 2
    true_low, true_high = true_centre - true_size / 2, true_centre + true_size / 2
    common = tf.reduce_prod(tf.maximum(tf.minimum(high, true_high) - tf.maximum(low, true_low), 0), axis=-1)
    union = tf.reduce_prod(size, axis=-1) + tf.reduce_prod(true_size, axis=-1) - common
    frame = tf.maximum(high, true_high) - tf.minimum(low, true_low)
    apart = tf.reduce_sum((centre - true_centre) ** 2, axis=-1) / tf.reduce_sum(frame**2, axis=-1)
    return common / union, apart
