"""What an import writes beside the cfg about the model's outputs: NAME.import.json for NAME.cfg.

It has the shapes of the outputs, and what TensorFlow Lite's detection post-process, which is not part of the
network, needs: its anchors and options.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import ConfigurationError
from harness.json_file import read_json

Shape = tuple[int, ...]

_LARGEST_FILE = 64 << 20  # bytes
_POST_PROCESS = "TFLite_Detection_PostProcess"


@dataclass(frozen=True, kw_only=True)
class PostProcess:
    """TensorFlow Lite's detection post-process, which reads encodings and scores."""

    anchors: npt.NDArray[np.float32]  # [boxes, 4] centre y, centre x, height, width in fractions
    scales: tuple[float, float, float, float]  # of encodings: y, x, height, width
    overlap: float  # IoU of suppression
    most: int  # detections per picture
    together: bool  # boxes keep their best class alone, and suppress those of other classes
    classes: int


@dataclass(frozen=True, kw_only=True)
class ImportDescription:
    """The outputs of an imported model."""

    names: tuple[str, ...]  # in the model's own file
    shapes: tuple[Shape, ...]  # without the batch
    post_process: PostProcess | None = None
    cut: tuple[str, ...] = ()  # the operators that the network ends before


def import_description(cfg: Path) -> ImportDescription | None:
    """The description beside a cfg; None if there is none. Raises ConfigurationError if it is damaged."""
    file = cfg.with_suffix(".import.json")
    if not file.is_file():
        return None
    data = read_json(file, limit=_LARGEST_FILE, what="the description of an import")
    try:
        return ImportDescription(
            names=tuple(str(output.get("name", "")) for output in data["outputs"]),
            shapes=tuple(_without_batch(output["shape"]) for output in data["outputs"]),
            cut=tuple(str(cut["operator"]) for cut in data["cut"]),
            post_process=next(
                (_post_process(cut) for cut in data["cut"] if cut["operator"] == _POST_PROCESS), None
            ),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"{file}: not the description of an import ({type(error).__name__}: {error})",
            hint="Import the model again.",
        ) from None


def _without_batch(shape: list[int]) -> Shape:
    sizes = tuple(int(size) for size in shape)
    return sizes[1:] if len(sizes) > 1 and sizes[0] == 1 else sizes


def _post_process(cut: dict[str, Any]) -> PostProcess:
    options = cut["attributes"]
    (anchors,) = cut["constants"].values()
    return PostProcess(
        anchors=np.array(anchors["values"], np.float32).reshape(-1, 4),
        scales=(
            float(options["y_scale"]),
            float(options["x_scale"]),
            float(options["h_scale"]),
            float(options["w_scale"]),
        ),
        overlap=float(options["nms_iou_threshold"]),
        most=int(options["max_detections"]),
        classes=int(options["num_classes"]),
        together=not options.get("use_regular_nms", False),
    )
