"""`harness import`: writes an ONNX or TensorFlow Lite model as a cfg with weights."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from harness.text import printable

if TYPE_CHECKING:
    from harness.importing.cfg_text import Preprocessing
    from harness.importing.metadata import Description
    from harness.importing.model import ImportedModel
    from harness.importing.sections import Section
    from harness.importing.writer import ImportedFiles


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, metavar="MODEL", help="ONNX or TensorFlow Lite file")
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="DIR",
        help="write cfg, weights and the rest to this folder",
    )
    parser.add_argument(
        "--input-shape",
        metavar="N,C,H,W",
        help="shape of the input, as 1,3,H,W, where the model leaves it open",
    )
    parser.add_argument(
        "--mean", metavar="M[,M,M]", help="mean of the pixels from 0 to 255 (default: the model's)"
    )
    parser.add_argument("--std", metavar="S[,S,S]", help="their deviation (default: the model's)")
    parser.add_argument("--colors", choices=("rgb", "bgr"), help="order of the channels that the model takes")
    parser.add_argument(
        "--resize",
        choices=("stretch", "letterbox", "letterbox_top_left", "crop"),
        help="how a picture is brought to the input's size (default: the model's)",
    )


def run(arguments: argparse.Namespace) -> int:
    from harness import console
    from harness.importing.metadata import describe
    from harness.importing.model import import_model
    from harness.importing.writer import write_model

    with console.progress(f"importing {arguments.model.name}", total=2) as bar:
        model = import_model(arguments.model, _shape(arguments.input_shape))
        bar.advance()
        said = describe(model)
        files = write_model(model, arguments.out, said, _preprocessing(arguments, said))
        bar.advance()
    for warning in model.warnings:
        console.warn(warning)
    if arguments.json:
        console.emit_json(_document(model, files))
    else:
        _print(model, files)
    return 0


def _shape(written: str | None) -> tuple[int, ...] | None:
    from harness.errors import ConfigurationError

    if written is None:
        return None
    sizes = written.split(",")
    if not all(size.isascii() and size.isdigit() and 0 < len(size) < 8 and int(size) for size in sizes):
        raise ConfigurationError(
            f"--input-shape {written}: not a list of sizes", hint="Write it as 1,3,224,224."
        )
    return tuple(int(size) for size in sizes)


def _preprocessing(arguments: argparse.Namespace, said: Description) -> Preprocessing:
    """What the model says, replaced by what the command line says."""
    from dataclasses import replace

    found = said.preprocessing
    if arguments.mean is not None:
        found = replace(found, mean=_numbers("--mean", arguments.mean))
    if arguments.std is not None:
        found = replace(found, std=_numbers("--std", arguments.std, zero=False))
    if arguments.colors is not None:
        found = replace(found, colors=arguments.colors)
    if arguments.resize is not None:
        found = replace(found, resize=arguments.resize)
    return found


def _numbers(option: str, written: str, *, zero: bool = True) -> tuple[float, ...]:
    import math

    from harness.errors import ConfigurationError

    try:
        found = tuple(float(word) for word in written.split(","))
    except ValueError:
        found = ()
    if not found or not all(math.isfinite(number) and (zero or number > 0) for number in found):
        raise ConfigurationError(
            f"{option} {written}: not a number, or one for each channel",
            hint="Write it as 127.5 or 104,117,123.",
        )
    return found


def _document(model: ImportedModel, files: ImportedFiles) -> dict[str, object]:
    return {
        "cfg": str(files.cfg),
        "weights": str(files.weights),
        "calibration": str(files.calibration) if files.calibration else None,
        "labels": str(files.labels) if files.labels else None,
        "description": str(files.description),
        "input": list(model.sections.input_shape),
        "outputs": [
            {"name": output.name, "shape": list(output.shape), "layer": output.section}
            for output in model.outputs
        ],
        "cut": [{"operator": cut.operator, "name": cut.name} for cut in model.cuts],
        "layers": [
            {
                "index": index,
                "type": section.kind,
                "name": section.name,
                "operators": list(section.operators),
                "out": list(section.shape),
                "macs": section.multiply_adds,
                "int8": _precision(section) == "int8",
            }
            for index, section in enumerate(model.sections.found)
        ],
        "warnings": list(model.warnings),
    }


def _precision(section: Section) -> str:
    return "int8" if ("int8", "1") in section.keys else "fp32" if section.weights else ""


def _print(model: ImportedModel, files: ImportedFiles) -> None:
    """What became what, then the outputs and the files."""
    from rich.table import Table

    from harness import console

    table = Table(box=None, pad_edge=False)
    for heading in ("#", "from", "became", "output", "million MACs", "precision"):
        table.add_column(heading, justify="right" if heading in ("#", "million MACs") else "left")
    for index, section in enumerate(model.sections.found):
        table.add_row(
            str(index),
            console.text(" + ".join(section.operators)),
            section.kind,
            "x".join(map(str, section.shape)),
            f"{section.multiply_adds / 1e6:.2f}" if section.multiply_adds else "",
            _precision(section),
        )
    console.stdout().print(table)
    for output in model.outputs:
        shape = "x".join(map(str, output.shape))
        print(printable(f"output {output.name}: {shape}, layer {output.section}"))
    for cut in model.cuts:
        print(printable(f"left out, the network ends before it: {cut.operator} {cut.name}"))
    for file in (files.cfg, files.weights, files.calibration, files.labels, files.description):
        if file is not None:
            print(printable(str(file)))
