"""Golden outputs of published models, and the tensors that were fed for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

Array = npt.NDArray[Any]

_MEAN, _DEVIATION = np.array([123.675, 116.28, 103.53]), np.array([58.395, 57.12, 57.375])


@dataclass(frozen=True, kw_only=True)
class Case:
    """One input with a runtime's outputs. `rows` are those that are kept of a large output, else None."""

    name: str
    picture: Array  # channels, height, width, as the network takes it; of a quantised model real numbers
    outputs: tuple[Array, ...]
    rows: tuple[Array | None, ...]
    by_reference_kernels: tuple[Array, ...]


def golden_cases(folder: Path, model: str) -> Iterator[Case]:
    """All cases of a model of the folder, such as `kws/kws.tflite`."""
    golden = folder / "golden"
    with np.load(golden / f"{model}.npz") as file:
        found = {key: file[key] for key in file.files}
    feed = str(found["feed"])
    for picture in found["images"]:
        name = "synthetic" if feed == "synthetic" else str(picture).split("_")[0]
        if feed == "synthetic":
            tensor = _synthetic(found["synthetic__input"])
        else:
            pixels = np.asarray(Image.open(golden / "inputs" / str(picture)).convert("RGB"))
            tensor = fed(pixels, feed)
        outputs: list[Array | None] = []
        rows: list[Array | None] = []
        while (key := f"{name}__out{len(outputs)}") in found or f"{key}_at_rows" in found:
            outputs.append(found.get(key, found.get(f"{key}_at_rows")))
            rows.append(found.get(f"{key}_rows"))
        kernels = [found[key] for k in range(len(outputs)) if (key := f"{name}__ref_out{k}") in found]
        yield Case(
            name=name,
            picture=tensor,
            outputs=tuple(output for output in outputs if output is not None),
            rows=tuple(rows),
            by_reference_kernels=tuple(kernels),
        )


def _synthetic(tensor: Array) -> Array:
    """[1, height, width, channels] or [1, values]"""
    first = np.asarray(tensor[0])
    return first.transpose(2, 0, 1) if tensor.ndim == 4 else first.reshape(-1, 1, 1)


def fed(pixels: Array, feed: str) -> Array:
    """A picture [height, width, RGB] as channels, height, width, prepared as the feed says."""
    x = pixels.astype(np.float64)
    match feed.rsplit("_", 1)[0]:
        case "bgr255" | "rgb01":
            x = x / 255
        case "bgr_meanstd" | "rgb_meanstd":
            x = (x - _MEAN) / _DEVIATION
        case "rgb_pm1":
            x = (x - 127.5) / 127.5
        case "rgb_127_128":
            x = (x - 127) / 128
        case "rgb" | "bgr" | "rgb_u8" | "rgb_raw":
            pass
        case other:
            raise AssertionError(f"no such feed: {other}")
    if feed.startswith("bgr"):
        x = x[..., ::-1]
    return np.asarray(x.transpose(2, 0, 1), np.float32)
