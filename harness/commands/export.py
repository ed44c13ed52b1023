"""`harness export`: writes a model under a policy in another format."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands.model_options import (
    add_calibration,
    add_dataset,
    add_model,
    dataset_of,
    model_files,
    positive_number,
    with_policy,
)
from harness.config.export_formats import FORMATS
from harness.config.preprocessing import RESIZES
from harness.text import printable

if TYPE_CHECKING:
    from harness.accuracy.model import Model
    from harness.exporting.formats import ExportedModel
    from harness.exporting.metadata import Description
    from harness.exporting.network import Network
    from harness.importing.tflite_file import FlatModel

_PICTURES = 32
_TFLITE = "tflite"
_RECORDING = {_TFLITE: "TensorFlow's converter", "mnn": "MNN's quantiser"}  # they record ranges of their own
_LARGEST_DESCRIPTION = 64 << 20  # bytes


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(
        parser,
        policy_help="use these precisions instead of the cfg's, or a quantisation as '{tflite: 16x8}'",
    )
    add_calibration(parser)
    parser.add_argument("--format", choices=tuple(FORMATS), required=True, help="write this format")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="write the files to this folder"
    )
    formats = " and ".join(_RECORDING)
    pictures = parser.add_argument_group(f"pictures, on which --format {formats} record ranges for int8")
    add_dataset(
        pictures, what="pictures; labels are not needed", split="default: train, else val", required=False
    )
    pictures.add_argument(
        "--limit", type=positive_number, metavar="N", help=f"use N pictures (default: {_PICTURES})"
    )
    pictures.add_argument(
        "--resize", choices=RESIZES, help="resize pictures by this method (default: as in eval)"
    )


def run(arguments: argparse.Namespace) -> int:
    from harness import console
    from harness.errors import ConfigurationError
    from harness.exporting.formats import export_model

    name = (arguments.model or arguments.cfg or Path()).stem
    tflite = arguments.format == _TFLITE
    records = arguments.format in _RECORDING
    if arguments.dataset is not None and not records:
        raise ConfigurationError(
            f"--dataset applies to --format {' and '.join(_RECORDING)}",
            hint="Other formats take the ranges of `harness calibrate` with --calibration.",
        )
    if arguments.dataset is None and (arguments.split or arguments.resize or arguments.limit):
        raise ConfigurationError(
            "--split, --limit and --resize apply to --dataset", hint="Give --dataset with pictures."
        )
    with (
        model_files(arguments),
        with_policy(arguments, arguments.policy, ranges=not records, tflite=tflite) as cfg,
        console.progress(f"exporting {name}", total=2) as bar,
    ):
        model = _model(arguments, cfg)
        bar.advance()
        files = export_model(model, arguments.format, arguments.out)
        lite = _lite(files)
        bar.advance()
    if arguments.dataset is not None and not any(layer.needs_range for layer in model.network.layers):
        console.warn("--dataset has no effect: no range is recorded for these precisions")
    if arguments.calibration is not None and records:
        converter = _RECORDING[arguments.format]
        console.warn(f"--calibration has no effect: {converter} records ranges of its own")
    for layer in model.network.needed():
        executed = model.formats[layer.index].executed
        if layer.weighted and layer.precision != executed:
            console.warn(
                f"layer {layer.index} ({layer.kind}) is exported in {executed}, as the engine runs it: "
                "its sums have more terms than int32 holds"
            )
    if arguments.json:
        console.emit_json(_document(model, files, arguments.format, lite))
    else:
        _print(model, files, lite)
    return 0


def _lite(files: list[Path]) -> FlatModel | None:
    """The TensorFlow Lite file among those of an export."""
    from harness.importing.tflite_file import read_flat_model

    return next((read_flat_model(file) for file in files if file.suffix == ".tflite"), None)


def _model(arguments: argparse.Namespace, cfg: Path) -> ExportedModel:
    """What to export: the network of `cfg` in its precisions, with what the user's own cfg says about it."""
    from harness.config.policy_file import read_policy
    from harness.exporting.calibration import Calibration, read_calibration
    from harness.exporting.formats import ExportedModel
    from harness.exporting.metadata import metadata_of
    from harness.exporting.network import read_network
    from harness.exporting.outputs import outputs_of
    from harness.exporting.precision_plan import converted_precisions, plan_precisions

    network = read_network(cfg, arguments.weights)
    recorded = read_calibration(arguments.calibration, network) if arguments.calibration else Calibration()
    static = any(layer.needs_range for layer in network.layers)
    converted = arguments.format == _TFLITE or (arguments.format in _RECORDING and static)
    formats = converted_precisions(network) if converted else plan_precisions(network, recorded)
    outputs = outputs_of(network, arguments.cfg)
    described = _described(arguments, cfg, network)
    return ExportedModel(
        stem=arguments.cfg.stem,
        network=network,
        formats=formats,
        outputs=outputs,
        metadata=metadata_of(network, formats, outputs, _description(arguments, described, network)),
        pictures=_pictures(arguments, described, network),
        tflite=read_policy(arguments.policy).tflite if arguments.policy else "",
    )


def _described(arguments: argparse.Namespace, cfg: Path, network: Network) -> Model:
    from harness.accuracy.model import described_model

    rows = [{"out": layer.out} for layer in network.layers]
    return described_model(cfg, arguments.weights, rows, origin=arguments.cfg)


def _pictures(arguments: argparse.Namespace, model: Model, network: Network) -> Callable[[Path], None] | None:
    """Writes those of --dataset, as an `ExportedModel` has it."""
    from harness.accuracy.calibrate import write_pictures
    from harness.accuracy.dataset import with_split_in_use
    from harness.errors import ConfigurationError

    if arguments.dataset is None:
        return None
    if any(layer.kind == "input" for layer in network.layers):
        raise ConfigurationError(
            f"{arguments.cfg.name}: the network has several inputs, and pictures fit networks with one",
            hint="Quantisations without recorded ranges need no --dataset.",
        )
    dataset = with_split_in_use(dataset_of(arguments), "train")
    return lambda out: write_pictures(
        model, dataset=dataset, limit=arguments.limit or _PICTURES, resize=arguments.resize, out=out
    )


def _description(arguments: argparse.Namespace, model: Model, network: Network) -> Description:
    from harness.accuracy.names import class_names
    from harness.accuracy.reading import Boxes, Scores, Unread
    from harness.config.preprocessing import Preprocessing
    from harness.exporting.metadata import Description

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


def _document(
    model: ExportedModel, files: list[Path], name: str, lite: FlatModel | None
) -> dict[str, object]:
    from harness.exporting.float_operators import float_operators

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
        "float_operators": dict(float_operators(lite)) if lite else None,
        "metadata": dict(model.metadata),
    }


def _print(model: ExportedModel, files: list[Path], lite: FlatModel | None) -> None:
    from harness.exporting.float_operators import float_share

    for output in model.outputs:
        shape = "x".join(map(str, output.shape))
        print(printable(f"output {output.name}: {shape}, layer {output.layer}"))
    weighted = [layer.index for layer in model.network.needed() if layer.weighted]
    counts = Counter(model.formats[index].executed for index in weighted)
    shares = ", ".join(f"{count} in {precision}" for precision, count in sorted(counts.items()))
    print(f"layers with weights: {shares or 'none'}")
    if lite:
        print(printable(f"computed in float: {float_share(lite)}"))
    for file in files:
        print(printable(str(file)))
