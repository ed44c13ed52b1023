"""Writes the sections of an imported model as a cfg, its weights and its calibration."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.config.preprocessing import Preprocessing
from harness.importing.model import ImportedModel
from harness.importing.sections import Section

_MERGED = ("route",)  # sections whose inputs are all named in `from`, in every case


def cfg_text(model: ImportedModel, preprocessing: Preprocessing, further: Mapping[str, str]) -> str:
    """The cfg; `further` are more keys of [net]."""
    channels, height, width = model.sections.input_shape
    net: dict[str, str] = {
        "width": str(width),
        "height": str(height),
        "channels": str(channels),
        "name": model.sections.input,
        "outputs": ",".join(output.section for output in model.outputs),
        **preprocessing.keys(),
        **further,
    }
    lines = [f"# Imported from {_comment(model.source.name)} by harness.", "[net]"]
    lines += [f"{key}={value}" for key, value in net.items()]
    before = model.sections.input
    for section in model.sections.found:
        lines += ["", *_section(section, before)]
        before = section.name
    return "\n".join(lines) + "\n"


def _section(section: Section, before: str) -> Iterator[str]:
    yield f"[{section.kind}]"
    yield f"name={section.name}"
    if section.inputs and (section.inputs != [before] or section.kind in _MERGED):
        yield f"from={','.join(section.inputs)}"
    for key, value in section.keys:
        yield f"{key}={value}"


def weights_bytes(model: ImportedModel) -> bytes:
    """The Darknet weights file: version 0.2.5, no pictures seen, and the numbers in the order of layers."""
    parts = [part.astype("<f4").tobytes() for section in model.sections.found for part in section.weights]
    return b"".join([struct.pack("<iiiq", 0, 2, 5, 0), *parts])


def calibration_text(model: ImportedModel) -> str | None:
    """The grids of a quantised model as a calibration file; None if it has none."""
    sections = model.sections
    tensors: list[dict[str, object]] = []
    weights: list[dict[str, object]] = []
    grids = [(-1, sections.grid(sections.input))]
    grids += [(index, section.grid) for index, section in enumerate(sections.found)]
    for index, grid in grids:
        if grid is None or not (grid.per_tensor or grid.axis == 1):
            continue
        if grid.per_tensor and grid.bits == 8:
            tensors.append({"layer": index, "scale": grid.scales[0], "zero_point": grid.zero_points[0]})
            continue
        low, high = grid.bounds()
        channels = {} if grid.per_tensor else {"channel_min": low, "channel_max": high}
        tensors.append({"layer": index, "min": min(low), "max": max(high), **channels})
    for index, section in enumerate(sections.found):
        if section.weight_scales:
            weights.append({"layer": index, "scales": list(section.weight_scales)})
    if not tensors and not weights:
        return None
    head = {
        "format": "mpe-calibration",
        "version": 1,
        "method": "model",
        "images": 0,
        "network": {"layers": len(sections.found), "input": list(sections.input_shape)},
        "pictures": [],
    }
    rows = ",\n".join(f"  {json.dumps(tensor)}" for tensor in tensors)
    scales = ",\n".join(f"  {json.dumps(scale)}" for scale in weights)
    return f'{json.dumps(head)[:-1]}, "tensors": [\n{rows}\n], "weights": [\n{scales}\n]}}\n'


def default_preprocessing(model: ImportedModel) -> Preprocessing:
    """What follows from the grid of a quantised picture, whose bytes are stored as they are; else nothing.

    Pixel p is stored as p in uint8 and as p - 128 in int8, so that the real number is scale * (p - zero).
    """
    grid = model.sections.grid(model.sections.input)
    if grid is None or grid.bits != 8 or not grid.scales[0] or model.sections.input_shape[0] not in (1, 3):
        return Preprocessing()
    return Preprocessing(mean=(float(grid.zero_points[0] + 128),), std=(1 / grid.scales[0],))


def _comment(name: str) -> str:
    return Path(name).name.encode("ascii", "replace").decode()
