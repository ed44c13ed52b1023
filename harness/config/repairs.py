"""The repairs of a network for int8, in the order in which they are made."""

from __future__ import annotations

REPAIRS = {
    "equalise": "bring the channels of each tensor to similar ranges",
    "ranges": "choose the ranges of tensors by their squared error",
    "rounding": "fit and round each layer's weights by least squares on its inputs in int8",
    "clipping": "choose the steps of weights by their squared error",
    "bias": "remove the mean error of each channel",
}
