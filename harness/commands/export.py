"""`harness export`: writes a model under a policy in another format."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands.model_options import add_calibration, add_model, chosen_cfg
from harness.config.export_formats import FORMATS
from harness.text import printable

if TYPE_CHECKING:
    from harness.exporting.formats import ExportedModel
    from harness.exporting.metadata import Description
    from harness.exporting.network import Network

_LARGEST_DESCRIPTION = 64 << 20  # bytes


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_calibration(parser)
    parser.add_argument("--format", choices=tuple(FORMATS), required=True, help="write this format")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="write the files to this folder"
    )


def run(arguments: argparse.Namespace) -> int:
    from harness import console
    from harness.exporting.formats import export_model

    name = (arguments.model or arguments.cfg or Path()).stem
    with chosen_cfg(arguments) as cfg, console.progress(f"exporting {name}", total=2) as bar:
        model = _model(arguments, cfg)
        bar.advance()
        files = export_model(model, arguments.format, arguments.out)
        bar.advance()
    for layer in model.network.needed():
        executed = model.formats[layer.index].executed
        if layer.weighted and layer.precision != executed:
            console.warn(
                f"layer {layer.index} ({layer.kind}) is exported in {executed}, as the engine runs it: "
                "its sums have more terms than int32 holds"
            )
    if arguments.json:
        console.emit_json(_document(model, files, arguments.format))
    else:
        _print(model, files)
    return 0


def _model(arguments: argparse.Namespace, cfg: Path) -> ExportedModel:
    """What to export: the network of `cfg` in its precisions, with what the user's own cfg says about it."""
    from harness.exporting.calibration import Calibration, read_calibration
    from harness.exporting.formats import ExportedModel
    from harness.exporting.metadata import metadata_of
    from harness.exporting.network import read_network
    from harness.exporting.outputs import outputs_of
    from harness.exporting.precision_plan import plan_precisions

    network = read_network(cfg, arguments.weights)
    recorded = read_calibration(arguments.calibration, network) if arguments.calibration else Calibration()
    formats = plan_precisions(network, recorded)
    outputs = outputs_of(network, arguments.cfg)
    return ExportedModel(
        stem=arguments.cfg.stem,
        network=network,
        formats=formats,
        outputs=outputs,
        metadata=metadata_of(network, formats, outputs, _description(arguments, cfg, network)),
    )


def _description(arguments: argparse.Namespace, cfg: Path, network: Network) -> Description:
    from harness.accuracy.model import described_model
    from harness.accuracy.names import class_names
    from harness.accuracy.reading import Boxes, Scores, Unread
    from harness.config.preprocessing import Preprocessing
    from harness.exporting.metadata import Description

    rows = [{"out": layer.out} for layer in network.layers]
    model = described_model(cfg, arguments.weights, rows, origin=arguments.cfg)
    reading = model.reading
    rules = model.pictures(None)
    names: list[str] = []
    if isinstance(reading, Boxes | Scores) and reading.names:
        names = list(reading.names)
    elif not isinstance(reading, Unread):
        found = class_names(None, arguments.cfg, reading.classes)
        names = found if found != list(map(str, range(reading.classes))) else []
    fitted = rules.resize.startswith("letterbox")
    return Description(
        pictures=Preprocessing(
            mean=rules.mean,
            std=rules.std,
            colors=rules.colors,
            resize=rules.resize,
            fill=rules.fill if fitted else None,
        )
        if network.input_shape[0] in (1, 3)
        else None,
        names=names,
        policy=arguments.policy or "as-is",
        sources=_sources(arguments),
    )


def _sources(arguments: argparse.Namespace) -> dict[str, str]:
    """The files that are exported, with their SHA-256."""
    from harness.file_digest import file_digest
    from harness.json_file import read_json

    if arguments.model is None:
        return {path.name: file_digest(path) for path in (arguments.cfg, arguments.weights)}
    file = arguments.cfg.with_suffix(".import.json")
    source = read_json(file, limit=_LARGEST_DESCRIPTION, what="the description of an import")["source"]
    return {source["name"]: source["sha256"]}


def _document(model: ExportedModel, files: list[Path], name: str) -> dict[str, object]:
    network = model.network
    inputs = [(network.input, network.input_shape)]
    inputs += [(layer.tensor, layer.out) for layer in network.layers if layer.kind == "input"]
    return {
        "format": name,
        "files": [str(file) for file in files],
        "inputs": [{"name": given, "shape": [1, *shape]} for given, shape in inputs],
        "outputs": [
            {"name": output.name, "shape": list(output.shape), "layer": output.layer}
            for output in model.outputs
        ],
        "layers": [
            {
                "index": layer.index,
                "name": layer.tensor,
                "precision": model.formats[layer.index].executed,
                "stored": model.formats[layer.index].output.precision,
            }
            for layer in network.needed()
        ],
        "metadata": dict(model.metadata),
    }


def _print(model: ExportedModel, files: list[Path]) -> None:
    for output in model.outputs:
        shape = "x".join(map(str, output.shape))
        print(printable(f"output {output.name}: {shape}, layer {output.layer}"))
    weighted = [layer.index for layer in model.network.needed() if layer.weighted]
    counts = Counter(model.formats[index].executed for index in weighted)
    shares = ", ".join(f"{count} in {precision}" for precision, count in sorted(counts.items()))
    print(f"layers with weights: {shares or 'none'}")
    for file in files:
        print(printable(str(file)))
