"""Counts the multiply-adds of a network from its cfg alone, for estimates before an engine is built.

Reports contain the engine's count (`mpe info`).
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from harness.config.darknet_cfg import DarknetCfg, sections_of
from harness.config.layer_shapes import window_terms

if TYPE_CHECKING:
    from harness.config.darknet_cfg import Layer, Section


def multiply_adds(cfg: DarknetCfg) -> int:
    """The count for one image. It is arbitrary for a cfg that the engine refuses."""
    return sum(layer_multiply_adds(cfg))


def layer_multiply_adds(cfg: DarknetCfg) -> list[int]:
    """The counts of all layers for one image, in their order."""
    sections = sections_of(cfg.text, cfg.file)[1:]
    return [_count(cfg, layer, section) for layer, section in zip(cfg.layers, sections, strict=True)]


def _count(cfg: DarknetCfg, layer: Layer, section: Section) -> int:
    if not layer.inputs:
        return 0
    channels, height, width = cfg.output_of(layer.inputs[0])
    match layer.kind:
        case "convolutional":
            groups = max(section.integer("groups", 1), 1)
            return prod(layer.out) * (channels // groups) * window_terms(section)
        case "deconvolutional":
            filters = layer.channels // max(section.integer("groups", 1), 1)
            return channels * height * width * filters * window_terms(section)
        case "connected":
            return layer.channels * channels * height * width
        case "matmul":
            return prod(layer.out) * width
        case _:
            return 0
