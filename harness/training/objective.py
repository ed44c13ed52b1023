"""What training makes small: how far a network's heads are from those of the network in fp32, or from labels.

Only the program of training imports this module: it needs TensorFlow. Heads are [pictures, rows, columns,
channels].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from harness.accuracy.agreement import FAINT
from harness.accuracy.heads import DetectionHead
from harness.training.detectors import CellOutputs, Columns
from harness.training.targets import Grid

Tensor = Any  # of TensorFlow, which has no types

_BOX_WEIGHT, _CLASS_WEIGHT = 6.0, 2.0
_LEAST_SHARE = 1e-6  # of which a logarithm is taken


def distillation(
    found: Mapping[int, Tensor],
    wanted: Mapping[int, Tensor],
    heads: Sequence[DetectionHead],
    cells: Sequence[CellOutputs] = (),
) -> Tensor:
    """Zero if the outputs `found` are those of fp32.

    For a detector's outputs: the divergence of the probability of an object and, as much as fp32 is sure of
    an object there, the divergence of classes and the error of boxes. For all other outputs: the squares of
    the error as a share of those of the values.
    """
    total = tf.constant(0.0)
    for each in cells:
        total += _of_cells(each, found, wanted)
    known = {head.source: head for head in heads if not head.new_coords}
    read = {columns.layer for each in cells for columns in (each.classes, each.boxes)}
    for source, tensor in found.items():
        if source in known:
            total += _as_detector(known[source], tensor, wanted[source])
        elif source not in read:
            noise = tf.reduce_sum(tf.square(tensor - wanted[source]))
            total += noise / (tf.reduce_sum(tf.square(wanted[source])) + 1e-12)
    return total


def _of_cells(cells: CellOutputs, found: Mapping[int, Tensor], wanted: Mapping[int, Tensor]) -> Tensor:
    own, classes = (_columns(cells.classes, each) for each in (found, wanted))
    if cells.shares:
        names = tf.reduce_sum(classes * (_logarithm(classes) - _logarithm(own)), axis=-1)
    else:
        names = tf.reduce_sum(_divergence(_logits(own), _logits(classes)), axis=-1)
    own_boxes, boxes = (_columns(cells.boxes, each) for each in (found, wanted))
    if cells.distributions:
        apart = _between_distributions(own_boxes, boxes)
    else:
        apart = _BOX_WEIGHT * tf.reduce_sum(tf.square(own_boxes - boxes), axis=-1)
    if cells.objectness is None:
        best = tf.reduce_max(classes, axis=-1)
        sure = tf.where(best > FAINT, best, 0.0)
        return (tf.reduce_sum(names) + tf.reduce_sum(sure * apart)) / (tf.reduce_sum(sure) + 1.0)
    own_sure, sure = (_columns(cells.objectness, each)[..., 0] for each in (found, wanted))
    objects = tf.reduce_sum(_divergence(_logits(own_sure), _logits(sure)))
    return (objects + tf.reduce_sum(sure * (names + apart))) / (tf.reduce_sum(sure) + 1.0)


def _columns(columns: Columns, outputs: Mapping[int, Tensor]) -> Tensor:
    """[pictures, rows, columns]"""
    tensor = outputs[columns.layer]
    _, height, width, channels = tensor.shape
    if channels == columns.rows:
        table = tf.transpose(tf.reshape(tensor, (-1, height * width, channels)), (0, 2, 1))
    else:
        table = tf.reshape(tensor, (-1, columns.rows, height * width * channels // columns.rows))
    return table[..., columns.begin : columns.end]


def _between_distributions(found: Tensor, wanted: Tensor) -> Tensor:
    """The divergence of the distributions of four sides, of logits side by side."""
    shape = (-1, wanted.shape[1], 4, wanted.shape[2] // 4)
    found, wanted = tf.reshape(found, shape), tf.reshape(wanted, shape)
    difference = tf.nn.log_softmax(wanted) - tf.nn.log_softmax(found)
    return tf.reduce_sum(tf.nn.softmax(wanted) * difference, axis=(-2, -1))


def _logarithm(shares: Tensor) -> Tensor:
    return tf.math.log(tf.clip_by_value(shares, _LEAST_SHARE, 1.0))


def _logits(shares: Tensor) -> Tensor:
    """Of probabilities."""
    limited = tf.clip_by_value(shares, _LEAST_SHARE, 1.0 - _LEAST_SHARE)
    return tf.math.log(limited) - tf.math.log1p(-limited)


def _as_detector(head: DetectionHead, found: Tensor, wanted: Tensor) -> Tensor:
    found, wanted = _entries(head, found), _entries(head, wanted)
    sure = tf.sigmoid(wanted[..., 4])
    objects = tf.reduce_sum(_divergence(found[..., 4], wanted[..., 4]))
    if head.softmax:
        shares = tf.nn.softmax(wanted[..., 5:])
        difference = tf.nn.log_softmax(wanted[..., 5:]) - tf.nn.log_softmax(found[..., 5:])
        classes = tf.reduce_sum(shares * difference, axis=-1)
    else:
        classes = tf.reduce_sum(_divergence(found[..., 5:], wanted[..., 5:]), axis=-1)
    centres = tf.reduce_sum(tf.square(tf.sigmoid(found[..., :2]) - tf.sigmoid(wanted[..., :2])), axis=-1)
    sizes = tf.reduce_sum(tf.square(found[..., 2:4] - wanted[..., 2:4]), axis=-1)
    inside = tf.reduce_sum(sure * (classes + _BOX_WEIGHT * (centres + sizes)))
    return (objects + inside) / (tf.reduce_sum(sure) + 1.0)


def _divergence(found: Tensor, wanted: Tensor) -> Tensor:
    """Of two logits' probabilities (Kullback and Leibler's): 0 if they are equal."""
    share = tf.sigmoid(wanted)
    own = tf.nn.sigmoid_cross_entropy_with_logits(share, wanted)
    return tf.nn.sigmoid_cross_entropy_with_logits(share, found) - own


def of_labels(grid: Grid, found: Tensor, wanted: Tensor) -> Tensor:
    """A yolo head's loss per object. `wanted` is what `targets.targets` gives for the pictures.

    A box shall cover its object, its objectness shall be that overlap, and 0 where no object is.
    """
    head = grid.head
    entries = _entries(head, found)
    columns, rows = tf.meshgrid(tf.range(float(grid.columns)), tf.range(float(grid.rows)))
    corner = tf.stack([columns, rows], axis=-1)[None, :, :, None]
    spread = head.scale_x_y
    inside = tf.sigmoid(entries[..., 0:2]) * spread - (spread - 1) / 2
    centre = (inside + corner) * [grid.width / grid.columns, grid.height / grid.rows]
    size = tf.exp(tf.clip_by_value(entries[..., 2:4], -4.0, 4.0)) * head.anchors
    present, counts = wanted[..., 4], wanted[..., 5]
    overlap, apart = _compared(centre, size, wanted[..., 0:2], wanted[..., 2:4])
    boxes = tf.reduce_sum(present * (1 - overlap + apart))
    objectness = tf.nn.sigmoid_cross_entropy_with_logits(present * tf.stop_gradient(overlap), entries[..., 4])
    names = tf.one_hot(tf.cast(wanted[..., 6], tf.int32), head.classes)
    classes = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(names, entries[..., 5:]), axis=-1)
    total = _BOX_WEIGHT * boxes + tf.reduce_sum(counts * objectness)
    total += _CLASS_WEIGHT * tf.reduce_sum(present * classes)
    return total / (tf.reduce_sum(present) + 1)


def _entries(head: DetectionHead, tensor: Tensor) -> Tensor:
    """[pictures, rows, columns, anchors, 5 + classes]"""
    shape = tf.shape(tensor)
    return tf.reshape(tensor, (shape[0], shape[1], shape[2], len(head.anchors), 5 + head.classes))


def _compared(centre: Tensor, size: Tensor, true_centre: Tensor, true_size: Tensor) -> tuple[Tensor, Tensor]:
    """Two boxes' overlap, and the squared distance of their centres as a share of the squared diagonal of the
    frame around both (Zheng et al., "Distance-IoU Loss", AAAI 2020)."""
    low, high = centre - size / 2, centre + size / 2
    true_low, true_high = true_centre - true_size / 2, true_centre + true_size / 2
    common = tf.reduce_prod(tf.maximum(tf.minimum(high, true_high) - tf.maximum(low, true_low), 0), axis=-1)
    union = tf.reduce_prod(size, axis=-1) + tf.reduce_prod(true_size, axis=-1) - common
    frame = tf.reduce_sum(tf.square(tf.maximum(high, true_high) - tf.minimum(low, true_low)), axis=-1)
    apart = tf.reduce_sum(tf.square(centre - true_centre), axis=-1) / (frame + 1e-9)
    return common / (union + 1e-9), apart
