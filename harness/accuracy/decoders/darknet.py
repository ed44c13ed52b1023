"""Head tensors to candidate boxes, as Darknet's yolo and region layers read them."""

from __future__ import annotations

import numpy as np

from harness.accuracy.boxes import Candidates, Floats
from harness.accuracy.heads import DetectionHead
from harness.errors import ConfigurationError


def decode(
    head: DetectionHead, tensor: Floats, network: tuple[int, int, int], threshold: float
) -> Candidates:
    """Candidates whose objectness is above `threshold` from a head's tensor [channels, rows, columns].

    `network` is the input's channels, height, width. Order is Darknet's: cells by row, then anchors.
    """
    channels, rows, columns = tensor.shape
    if channels != head.channels:
        raise ConfigurationError(
            f"layer {head.layer} ({head.kind}): {len(head.anchors)} anchors and {head.classes} classes "
            f"want {head.channels} channels, layer {head.source} gives {channels}",
            hint=f"Set filters={head.channels} in the previous layer, or correct mask= and classes=.",
        )
    count = len(head.anchors)
    entries = tensor.reshape(count, 5 + head.classes, rows, columns).transpose(2, 3, 0, 1)
    raw = entries[..., 4]
    objectness = raw if head.new_coords else _logistic(raw)
    cell_y, cell_x, anchor = np.nonzero(objectness > threshold)  # false for NaN
    entry = entries[cell_y, cell_x, anchor]
    scale = objectness[cell_y, cell_x, anchor][:, None]

    centre = entry[:, :2] if head.new_coords else _logistic(entry[:, :2])
    if head.kind == "yolo":
        centre = centre * np.float32(head.scale_x_y) - np.float32(0.5 * (head.scale_x_y - 1))
    with np.errstate(over="ignore"):
        size = (entry[:, 2:4] ** 2 * 4 if head.new_coords else np.exp(entry[:, 2:4])) * head.anchors[anchor]
    unit = (network[2], network[1]) if head.kind == "yolo" else (columns, rows)
    cell = np.stack([cell_x, cell_y], axis=1).astype(np.float32)
    boxes = np.concatenate(
        [(cell + centre) / np.array([columns, rows], np.float32), size / np.array(unit, np.float32)], axis=1
    )

    scores = entry[:, 5:]
    if head.kind == "region":
        scores = _softmax(scores) if head.softmax else scores
    elif not head.new_coords:
        scores = _logistic(scores)
    probabilities = scale * scores
    return Candidates(
        boxes=boxes.astype(np.float32),
        probabilities=np.where(probabilities > threshold, probabilities, 0).astype(np.float32),
    )


def _logistic(values: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-values)), np.float32)


def _softmax(values: Floats) -> Floats:
    if not len(values):
        return values
    powers = np.exp(values - values.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True), np.float32)
