"""`harness detect`: objects in pictures, as text, JSON, or drawn."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.commands.model_options import add_engine, add_model, chosen_cfg, engine_options
from harness.text import printable

if TYPE_CHECKING:
    from harness.accuracy.boxes import Detections
    from harness.accuracy.draw import Frame
    from harness.accuracy.model import Model
    from harness.accuracy.preprocess import Sample
    from harness.runtimes.engine import HostEngine

    Results = list[tuple[Sample, Detections]]  # of every picture, in order


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument(
        "--names",
        type=Path,
        metavar="F",
        help="class names, one per line, or a data.yaml (default: the model's, those of the data.yaml of the "
        "pictures' data set, or a matching file beside the cfg)",
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
        choices=("stretch", "letterbox", "letterbox_top_left"),
        help="resize pictures by this method (default: the cfg's; else stretch, or letterbox if [net] has "
        "letter_box=1)",
    )
    parser.add_argument(
        "--compare",
        action="store_true",
        help="also run in fp32, and mark the detections that are lost or new in the policy",
    )
    parser.add_argument(
        "--draw", type=Path, metavar="OUT", help="draw the detections into this picture or folder"
    )
    parser.add_argument("images", type=Path, nargs="+", metavar="IMAGE", help="pictures")
    add_engine(parser)


def run(arguments: argparse.Namespace) -> int:
    from harness import console
    from harness.errors import ConfigurationError

    if not 0 < arguments.threshold < 1:
        raise ConfigurationError(f"--threshold {arguments.threshold}: not between 0 and 1")
    targets = _drawings(arguments.draw, arguments.images) if arguments.draw else {}
    with chosen_cfg(arguments) as cfg:
        found, reference, names = _detect(arguments, cfg)
    rows = _rows(found, reference, names)
    # All pictures are processed before anything is written: a damaged one leaves no partial output.
    for row, path in zip(rows, arguments.images, strict=True):
        if path in targets:
            _draw(path, row, names, arguments.policy or "cfg", targets[path])
    if arguments.json:
        console.emit_json({"images": rows})
    else:
        _print(rows)
    return 0


def _detect(arguments: argparse.Namespace, cfg: Path) -> tuple[Results, Results | None, list[str]]:
    """The detections of every picture, fp32's with --compare, and the names of the classes."""
    from harness.accuracy.dataset import names_around
    from harness.accuracy.heads import read_outputs
    from harness.accuracy.model import in_fp32, known_reading, load_model
    from harness.accuracy.names import class_names
    from harness.accuracy.reading import check_detects
    from harness.errors import ConfigurationError
    from harness.runtimes.engine import host_engine

    outputs = read_outputs(cfg, arguments.cfg)
    known = known_reading(outputs)
    around = names_around(arguments.images)
    if known is not None or outputs.stated is None:
        # Wrong models and names are told before an engine is built.
        classes = check_detects(arguments.cfg, known).classes
        class_names(arguments.names, arguments.cfg, classes, around)
    engine = host_engine(arguments.algorithm)
    model = load_model(engine, cfg, arguments.weights, origin=arguments.cfg)
    reading = check_detects(arguments.cfg, model.reading)
    names = list(reading.names) if arguments.names is None else []
    names = names or class_names(arguments.names, arguments.cfg, reading.classes, around)
    if not arguments.compare:
        return _run(arguments, engine, model, "detecting"), None, names
    if not model.mixed:
        raise ConfigurationError(
            "--compare: every layer is fp32, so there is nothing to compare",
            hint="Choose other precisions with --policy.",
        )
    with in_fp32(model) as fp32:
        found = _run(arguments, engine, model, "detecting")
        return found, _run(arguments, engine, fp32, "detecting in fp32"), names


def _rows(found: Results, reference: Results | None, names: list[str]) -> list[dict[str, Any]]:
    """A row per picture; with fp32's detections, which are lost in the others and which new."""
    from harness.accuracy.agreement import matches

    rows: list[dict[str, Any]] = []
    for number, (sample, detections) in enumerate(found):
        row: dict[str, Any] = {"image": str(sample.path), "detections": _boxes(sample, detections, names)}
        if reference is not None:
            expected = reference[number][1]
            places = matches(detections, expected).tolist()
            row["detections"] = _boxes(sample, detections, names, new=[place < 0 for place in places])
            row["fp32"] = _boxes(
                sample, expected, names, lost=[place not in places for place in range(len(expected))]
            )
        rows.append(row)
    return rows


def _run(arguments: argparse.Namespace, engine: HostEngine, model: Model, what: str) -> Results:
    from harness import console
    from harness.accuracy.detector import detect
    from harness.accuracy.reading import check_detects

    results: Results = []  # without the tensors, which would fill the memory
    with console.progress(what, total=len(arguments.images)) as bar:
        for sample, detections in detect(
            engine,
            model,
            arguments.images,
            reading=check_detects(arguments.cfg, model.reading),
            threshold=arguments.threshold,
            rules=model.pictures(arguments.resize),
            options=engine_options(arguments),
        ):
            results.append((replace(sample, tensor=sample.tensor[:0]), detections))
            bar.advance()
    return results


def _boxes(
    sample: Sample, detections: Detections, names: list[str], **marks: list[bool]
) -> list[dict[str, Any]]:
    """Most confident first, with the marks of each. Boxes may reach beyond the picture."""
    scale = (sample.width, sample.height, sample.width, sample.height)
    rows = [
        {
            "class": names[class_id],
            "confidence": round(float(confidence), 6),
            "box": [round(float(part) * size, 3) for part, size in zip(corners, scale, strict=True)],
        }
        | {mark: values[number] for mark, values in marks.items()}
        for number, (class_id, confidence, corners) in enumerate(
            zip(detections.classes, detections.confidences, detections.corners(), strict=True)
        )
    ]
    return sorted(rows, key=lambda row: -row["confidence"])


def _print(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        lost = [found for found in row.get("fp32", []) if found["lost"]]
        count = f"{printable(row['image'])}: {len(row['detections'])} found"
        if "fp32" in row:
            new = sum(found["new"] for found in row["detections"])
            count += f", {len(row['fp32'])} in fp32: {len(lost)} lost, {new} new"
        print(count)
        for found in (*row["detections"], *lost):
            left, top, width, height = found["box"]
            mark = "  new" if found.get("new") else "  lost" if found.get("lost") else ""
            print(
                f"  {printable(found['class'])}: {100 * found['confidence']:.0f}%  "
                f"left {left:.0f}  top {top:.0f}  width {width:.0f}  height {height:.0f}{mark}"
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


def _draw(picture: Path, row: dict[str, Any], names: list[str], policy: str, out: Path) -> None:
    from harness.accuracy.draw import draw, draw_beside
    from harness.errors import file_error

    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise file_error(out.parent, error, doing="cannot be created") from None
    found = _frames(row["detections"], names)
    if "fp32" not in row:
        draw(picture, found, out)
        return
    draw_beside(picture, [("fp32", _frames(row["fp32"], names)), (policy, found)], out)


def _frames(found: list[dict[str, Any]], names: list[str]) -> list[Frame]:
    from harness.accuracy.draw import Frame

    frames = []
    for row in found:
        mark = "new: " if row.get("new") else "lost: " if row.get("lost") else ""
        frames.append(
            Frame(
                class_id=names.index(row["class"]),
                caption=f"{mark}{row['class']} {100 * row['confidence']:.0f}%",
                box=row["box"],
                marked=bool(mark),
            )
        )
    return frames
