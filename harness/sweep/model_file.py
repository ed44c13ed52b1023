"""The file that a runtime executes for a variant: the model's own, or an export under the policy."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from harness import console, exporting
from harness.accuracy.import_description import import_description
from harness.config.export_formats import CHANNELS_LAST
from harness.config.file_kind import kind_of
from harness.errors import ConfigurationError
from harness.exporting.calibration import Calibration, read_calibration
from harness.exporting.float_operators import float_share
from harness.exporting.formats import ExportedModel, export_model
from harness.exporting.network import read_network
from harness.exporting.outputs import Output, outputs_of
from harness.exporting.precision_plan import plan_precisions
from harness.file_digest import file_digest
from harness.importing.tflite_file import read_flat_model
from harness.runtimes.base import ModelFile, Runtime
from harness.sdk.packages import add_file
from harness.temporary import fresh_folder
from harness.text import printable

if TYPE_CHECKING:
    from harness.config.darknet_cfg import DarknetCfg
    from harness.config.sweep import Variant


def own_file(runtime: Runtime, name: str, variant: Variant) -> ModelFile | ConfigurationError:
    """The model's own file, unchanged, or why the runtime cannot execute it for this variant: it has another
    format, or other precisions than the policy asks for. `name` is the runtime's."""
    source = variant.model.source
    wanted = " or ".join(kind.name for kind in runtime.formats)
    if source is None:
        return _not_executed(name, wanted, f"{variant.model.name} is a Darknet cfg")
    kind = kind_of(source)
    if kind not in runtime.formats:
        return _not_executed(name, wanted, f"{source.name} is {kind.name if kind else 'another file'}")
    if variant.tflite or _precisions(variant.cfg) != _precisions(variant.model.network):
        return ConfigurationError(
            f"{name} runs the model's own file, which has other precisions than policy {variant.policy}",
            hint="Use the policy as-is, or the precision that the file has.",
        )
    described = import_description(variant.model.cfg)
    if described is None:
        return ConfigurationError(f"{variant.model.cfg}: the description of its import is missing")
    network = variant.model.network
    layers = network.outputs or (len(network.layers) - 1,)
    outputs = dict(zip(layers, described.names, strict=True))
    return ModelFile(path=source, outputs=outputs, more=described.cut)


def exported_file(
    format_name: str,
    variant: Variant,
    cfg: Path,
    calibration: Path | None,
    folder: Path,
    file_hash: Callable[[Path], str] = file_digest,
    pictures: Callable[[Path], None] | None = None,
    converter: str = "",
) -> ModelFile:
    """The variant as a file of a format, which is written to a folder of its own below `folder` if missing.
    `cfg` is the variant's; `file_hash` may remember the hashes of weights, which all policies share.
    `pictures` writes those of `calibration`, as an `ExportedModel` has it. `converter` is the fingerprint of
    a runtime that writes the file.

    Raises ConfigurationError for a layer that the format cannot express.
    """
    model = variant.model
    key = hashlib.sha256(_exporter().encode())
    ranges = file_hash(calibration) if calibration else ""
    for part in (format_name, variant.cfg.text, variant.tflite, file_hash(model.weights), ranges, converter):
        key.update(f"\0{part}".encode("latin-1"))
    found = folder / model.name / f"{variant.policy}-{key.hexdigest()[:12]}"
    if not found.is_dir():
        with console.progress(f"exporting {printable(f'{model.name} {variant.policy}')}", None):
            _export(format_name, variant, cfg, calibration, pictures, found)
    (path,) = found.iterdir()
    return ModelFile(
        path=path,
        outputs={output.layer: output.name for output in _outputs(variant)},
        channels_last=format_name in CHANNELS_LAST,
    )


def _export(
    format_name: str,
    variant: Variant,
    cfg: Path,
    calibration: Path | None,
    pictures: Callable[[Path], None] | None,
    folder: Path,
) -> None:
    network = read_network(cfg, variant.model.weights)
    recorded = read_calibration(calibration, network) if calibration else Calibration()
    exported = ExportedModel(
        stem=variant.model.cfg.stem,
        network=network,
        formats=plan_precisions(network, recorded),
        outputs=_outputs(variant),
        metadata={},
        pictures=pictures,
        tflite=variant.tflite,
    )
    with fresh_folder(folder) as made:
        files = export_model(exported, format_name, made)
        if variant.tflite:
            name = printable(f"{variant.model.name} {variant.policy}")
            console.log(f"{name}: computed in float: {printable(float_share(read_flat_model(files[0])))}")
        _pack(made)


def _pack(folder: Path) -> None:
    """Makes an export that is a folder one file: a board gets files, and a cell's key has a file's hash."""
    for export in [path for path in folder.iterdir() if path.is_dir()]:
        with zipfile.ZipFile(folder / f"{export.name}.zip", "w") as archive:
            for path in sorted(each for each in export.rglob("*") if each.is_file()):
                add_file(archive, path, path.relative_to(export).as_posix())
        shutil.rmtree(export)


@cache
def _exporter() -> str:
    """The hash of the exporter: a file that another version has written is not used."""
    digest = hashlib.sha256()
    for path in sorted(Path(exporting.__path__[0]).glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _outputs(variant: Variant) -> tuple[Output, ...]:
    """They do not depend on the policy."""
    return _outputs_of_model(variant.model.cfg, variant.model.weights)


@cache
def _outputs_of_model(cfg: Path, weights: Path) -> tuple[Output, ...]:
    return outputs_of(read_network(cfg, weights), cfg)


def _not_executed(name: str, wanted: str, found: str) -> ConfigurationError:
    return ConfigurationError(f"{name} runs {wanted}; {found}")


def _precisions(cfg: DarknetCfg) -> Sequence[tuple[str, bool]]:
    return [(layer.precision, layer.quantize) for layer in cfg.weighted]
