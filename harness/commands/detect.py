"""`harness detect`: objects in pictures, as text, JSON, or drawn."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.commands.model_options import add_engine, add_model, chosen_cfg, engine_options
from harness.text import printable

if TYPE_CHECKING:
    from harness.accuracy.boxes import Detections
    from harness.accuracy.preprocess import Sample


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument(
        "--names",
        type=Path,
        metavar="F",
        help="class names, one per line, or a data.yaml (default: a matching file beside the cfg)",
    )
    parser.add_argument(
        "--threshold",
        type=float,
        default=0.25,
        metavar="T",
        help="show detections from this confidence upwards (default: .25)",
    )
    parser.add_argument(
        "--resize",
        choices=("stretch", "letterbox"),
        help="resize pictures by this method (default: stretch, or letterbox if [net] has letter_box=1)",
    )
    parser.add_argument(
        "--draw", type=Path, metavar="OUT", help="draw the detections into this picture or folder"
    )
    parser.add_argument("images", type=Path, nargs="+", metavar="IMAGE", help="pictures")
    add_engine(parser)


def run(arguments: argparse.Namespace) -> int:
    from harness import console
    from harness.accuracy.detector import detect
    from harness.accuracy.heads import detected_classes
    from harness.accuracy.model import load_model
    from harness.accuracy.names import class_names
    from harness.errors import ConfigurationError
    from harness.runtimes.engine import host_engine

    if not 0 < arguments.threshold < 1:
        raise ConfigurationError(f"--threshold {arguments.threshold}: not between 0 and 1")
    targets = _drawings(arguments.draw, arguments.images) if arguments.draw else {}
    rows: list[dict[str, Any]] = []
    with (
        chosen_cfg(arguments) as cfg,
        console.progress("detecting", total=len(arguments.images)) as bar,
    ):
        names = class_names(arguments.names, arguments.cfg, detected_classes(cfg))
        engine = host_engine(arguments.algorithm)
        model = load_model(engine, cfg, arguments.weights)
        for sample, detections in detect(
            engine,
            model,
            arguments.images,
            threshold=arguments.threshold,
            resize=model.resize(arguments.resize),
            options=engine_options(arguments),
        ):
            rows.append({"image": str(sample.path), "detections": _rows(sample, detections, names)})
            bar.advance()
    # All pictures are processed before anything is written: a damaged one leaves no partial output.
    for row, path in zip(rows, arguments.images, strict=True):
        if path in targets:
            _draw(path, row["detections"], names, targets[path])
    if arguments.json:
        console.emit_json({"images": rows})
    else:
        _print(rows)
    return 0


def _rows(sample: Sample, detections: Detections, names: list[str]) -> list[dict[str, Any]]:
    """Most confident first. Boxes are as the network gives them: they may reach beyond the picture."""
    scale = (sample.width, sample.height, sample.width, sample.height)
    rows = [
        {
            "class": names[class_id],
            "confidence": round(float(confidence), 6),
            "box": [round(float(part) * size, 3) for part, size in zip(corners, scale, strict=True)],
        }
        for class_id, confidence, corners in zip(
            detections.classes, detections.confidences, detections.corners(), strict=True
        )
    ]
    return sorted(rows, key=lambda row: -row["confidence"])


def _print(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        print(f"{printable(row['image'])}: {len(row['detections'])} found")
        for found in row["detections"]:
            left, top, width, height = found["box"]
            print(
                f"  {printable(found['class'])}: {100 * found['confidence']:.0f}%  "
                f"left {left:.0f}  top {top:.0f}  width {width:.0f}  height {height:.0f}"
            )


def _drawings(out: Path, images: list[Path]) -> dict[Path, Path]:
    """The file to draw each picture into: `out` for a single picture, else a file in the folder `out`."""
    from harness.accuracy.draw import picture_format
    from harness.errors import ConfigurationError

    if len(images) == 1 and out.suffix and not out.is_dir():
        picture_format(out)  # fail before the work
        return {images[0]: out}
    if out.exists() and not out.is_dir():
        raise ConfigurationError(
            f"{out}: is a file; several pictures need a folder", hint="Name a folder with --draw."
        )
    targets = {image: out / f"{image.stem}.png" for image in images}
    if len(set(targets.values())) < len(targets):
        raise ConfigurationError(f"{out}: two pictures have the same name")
    return targets


def _draw(picture: Path, found: list[dict[str, Any]], names: list[str], out: Path) -> None:
    from harness.accuracy.draw import draw
    from harness.errors import file_error

    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise file_error(out.parent, error, doing="cannot be created") from None
    draw(
        picture,
        [
            (names.index(row["class"]), f"{row['class']} {100 * row['confidence']:.0f}%", row["box"])
            for row in found
        ],
        out,
    )
