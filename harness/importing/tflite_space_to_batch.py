"""Recognises TensorFlow's dilated convolutions: space to batch, convolution, batch to space."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from harness.importing.tflite_file import FlatModel

Dilation = Mapping[str, tuple[int, ...]]  # "dilations": y, x; "pads": top, left, bottom, right


def dilated_convolutions(model: FlatModel) -> tuple[dict[int, Dilation], frozenset[int]]:
    """The convolutions that are dilated, by their place, and the places of what surrounds them."""
    readers: dict[int, list[int]] = {}
    for place, operator in enumerate(model.operators):
        for index in operator.inputs:
            readers.setdefault(index, []).append(place)
    found: dict[int, Dilation] = {}
    surrounding: set[int] = set()
    for place, operator in enumerate(model.operators):
        if operator.name != "SPACE_TO_BATCH_ND":
            continue
        middle = _only(readers, operator.outputs)
        if middle is None or "CONV_2D" not in model.operators[middle].name:
            continue
        last = _only(readers, model.operators[middle].outputs)
        if last is None or model.operators[last].name != "BATCH_TO_SPACE_ND":
            continue
        if len(model.operators[last].outputs) != 1:
            continue
        block, before = _pair(model, operator.inputs)
        _, crops = _pair(model, model.operators[last].inputs)
        options = model.operators[middle].options
        plain = options.get("StrideH") == options.get("StrideW") == 1 and options.get("Padding") == 1
        if block is None or before is None or crops is None or not plain:
            continue
        pads = (before - crops).reshape(2, 2)  # [rows, columns][before, after]
        if (pads < 0).any():
            continue
        found[middle] = {
            "dilations": (int(block[0]), int(block[1])),
            "pads": (int(pads[0, 0]), int(pads[1, 0]), int(pads[0, 1]), int(pads[1, 1])),
        }
        surrounding |= {place, last}
    return found, frozenset(surrounding)


def _only(readers: Mapping[int, list[int]], outputs: tuple[int, ...]) -> int | None:
    users = readers.get(outputs[0], []) if len(outputs) == 1 else []
    return users[0] if len(users) == 1 else None


def _pair(model: FlatModel, inputs: tuple[int, ...]) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The constants of block sizes and of paddings, for images alone."""
    if len(inputs) != 3:
        return None, None
    block, pads = model.tensors[inputs[1]].data, model.tensors[inputs[2]].data
    if block is None or pads is None or (block.size, pads.size) != (2, 4):
        return None, None
    if block.dtype.kind != "i" or pads.dtype.kind != "i":
        return None, None
    return block.reshape(-1), pads
