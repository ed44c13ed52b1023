"""Counts the multiply-adds of a network from its cfg alone, for estimates before an engine is built.

Reports contain the engine's count (`mpe info`).
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.config.darknet_cfg import NETWORK_INPUT, DarknetCfg, Layer, Section, sections_of

Size = tuple[int, int]  # height and width of a map


def multiply_adds(cfg: DarknetCfg) -> int:
    """The count for one image. It is arbitrary for a cfg that the engine refuses."""
    sizes: list[Size] = []
    total = 0
    for layer, section in zip(cfg.layers, sections_of(cfg.text, cfg.file)[1:], strict=True):
        sizes.append(_size(layer, section, cfg, sizes))
        height, width = sizes[-1]
        channels, area = _input(layer, cfg, sizes)
        if layer.kind == "convolutional":
            window = max(section.integer("size", 1), 1) ** 2
            total += layer.channels * height * width * (channels // _positive(section, "groups")) * window
        elif layer.kind == "connected":
            total += layer.channels * channels * area
    return total


def _input(layer: Layer, cfg: DarknetCfg, sizes: Sequence[Size]) -> tuple[int, int]:
    """The channels and pixels of a layer's input."""
    source = layer.inputs[0]
    height, width = cfg.input_size[1:] if source == NETWORK_INPUT else sizes[source]
    return (cfg.input_size[0] if source == NETWORK_INPUT else cfg.layers[source].channels), height * width


def _size(layer: Layer, section: Section, cfg: DarknetCfg, before: Sequence[Size]) -> Size:
    source = layer.inputs[0]
    height, width = cfg.input_size[1:] if source == NETWORK_INPUT else before[source]
    stride = _positive(section, "stride")
    match layer.kind:
        case "convolutional":
            size = _positive(section, "size")
            dilation = 1 if size == 1 else _positive(section, "dilation")
            padding = size // 2 if section.integer("pad", 0) else section.integer("padding", 0)
            room = dilation * (2 * padding - size + 1) - 1
        case "maxpool":
            size = section.integer("size", stride)
            room = section.integer("padding", size - 1) - size
        case "upsample":
            stride = section.integer("stride", 2)
            return height * stride, width * stride
        case "reorg":
            reverse = section.integer("reverse", 0) != 0
            return (height * stride, width * stride) if reverse else (height // stride, width // stride)
        case "crop":
            return section.integer("crop_height", 1), section.integer("crop_width", 1)
        case "scale_channels":
            return before[layer.inputs[1]]
        case "avgpool" | "connected":
            return 1, 1
        case _:
            return height, width
    down, across = (_positive(section, key, stride) for key in ("stride_y", "stride_x"))
    return max((height + room) // down + 1, 1), max((width + room) // across + 1, 1)


def _positive(section: Section, key: str, default: int = 1) -> int:
    value = section.integer(key, default)
    return value if value > 0 else default
