"""`harness import`: writes a model of another format as a cfg with weights."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands.model_options import MODEL_FORMATS, add_import_options, import_options
from harness.config.preprocessing import RESIZES
from harness.text import printable

if TYPE_CHECKING:
    from harness.importing.model import ImportedModel
    from harness.importing.sections import Section
    from harness.importing.writer import ImportedFiles


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, metavar="MODEL", help=MODEL_FORMATS)
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="DIR",
        help="write cfg, weights and the rest to this folder",
    )
    add_import_options(parser)
    parser.add_argument(
        "--resize",
        choices=RESIZES,
        help="how a picture is brought to the input's size (default: as the model says)",
    )


def run(arguments: argparse.Namespace) -> int:
    from harness import console
    from harness.importing.metadata import describe
    from harness.importing.model import import_model
    from harness.importing.writer import write_model

    options = replace(import_options(arguments), resize=arguments.resize)
    with console.progress(f"importing {arguments.model.name}", total=2) as bar:
        model = import_model(arguments.model, options.input_shape)
        bar.advance()
        files = write_model(model, arguments.out, describe(model, options))
        bar.advance()
    for warning in model.warnings:
        console.warn(warning)
    if arguments.json:
        console.emit_json(_document(model, files))
    else:
        _print(model, files)
    return 0


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
    from harness.config.darknet_cfg import CFG_PRECISIONS

    asked = [key for key, value in section.keys if key in CFG_PRECISIONS and value == "1"]
    return asked[0] if asked else "fp32" if section.weights else ""


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
