"""Counts the multiply-adds of a network from its cfg alone, for estimates before an engine is built.

Reports contain the engine's count (`mpe info`).
"""

from __future__ import annotations

from math import prod

from harness.config.darknet_cfg import DarknetCfg, sections_of
from harness.config.layer_shapes import window_terms


def multiply_adds(cfg: DarknetCfg) -> int:
    """The count for one image. It is arbitrary for a cfg that the engine refuses."""
    total = 0
    for layer, section in zip(cfg.layers, sections_of(cfg.text, cfg.file)[1:], strict=True):
        if not layer.inputs:
            continue
        channels, height, width = cfg.output_of(layer.inputs[0])
        match layer.kind:
            case "convolutional":
                groups = max(section.integer("groups", 1), 1)
                total += prod(layer.out) * (channels // groups) * window_terms(section)
            case "deconvolutional":
                filters = layer.channels // max(section.integer("groups", 1), 1)
                total += channels * height * width * filters * window_terms(section)
            case "connected":
                total += layer.channels * channels * height * width
            case "matmul":
                total += prod(layer.out) * width
            case _:
                pass
    return total
