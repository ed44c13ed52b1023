"""Writes an imported model as files: cfg, weights, calibration, names of classes, and a description."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

from harness.file_digest import file_digest
from harness.files import write_together
from harness.importing.cfg_text import calibration_text, cfg_text, weights_bytes
from harness.importing.graph import Cut
from harness.importing.metadata import Description
from harness.importing.model import ImportedModel
from harness.importing.quantization import Quantization

_UNFIT = re.compile(r"[^A-Za-z0-9._+-]")  # of the cfg's own key `labels`, which has no blanks


@dataclass(frozen=True, kw_only=True)
class ImportedFiles:
    """The files of one import; None for those that the model does not need."""

    cfg: Path
    weights: Path
    calibration: Path | None
    labels: Path | None
    description: Path

    def all(self) -> tuple[Path, ...]:
        """Those that exist."""
        found = (self.cfg, self.weights, self.calibration, self.labels, self.description)
        return tuple(path for path in found if path is not None)

    def moved(self, folder: Path) -> ImportedFiles:
        """The same files in another folder."""
        return ImportedFiles(
            cfg=folder / self.cfg.name,
            weights=folder / self.weights.name,
            calibration=folder / self.calibration.name if self.calibration else None,
            labels=folder / self.labels.name if self.labels else None,
            description=folder / self.description.name,
        )


def write_model(model: ImportedModel, folder: Path, said: Description) -> ImportedFiles:
    """Writes all files or, if one cannot be written, none. Files of the same names are replaced.

    Raises ConfigurationError if the folder cannot be written.
    """
    stem = _UNFIT.sub("_", model.source.stem) or "model"
    calibration = calibration_text(model)
    labels = "\n".join(said.labels) + "\n" if said.labels else None
    further = {"decoder": said.decoder} if said.decoder else {}
    further |= said.decoding
    further |= {"labels": f"{stem}.names"} if labels else {}
    contents: dict[str, bytes] = {f"{stem}.weights": weights_bytes(model)}
    if calibration is not None:
        contents[f"{stem}.calibration.json"] = calibration.encode()
    if labels is not None:
        contents[f"{stem}.names"] = labels.encode()
    contents[f"{stem}.import.json"] = (json.dumps(description(model, said), indent=1) + "\n").encode()
    contents[f"{stem}.cfg"] = cfg_text(model, said.preprocessing, further).encode()
    write_together(folder, contents)
    found = {name: folder / name for name in contents}
    return ImportedFiles(
        cfg=found[f"{stem}.cfg"],
        weights=found[f"{stem}.weights"],
        calibration=found.get(f"{stem}.calibration.json"),
        labels=found.get(f"{stem}.names"),
        description=found[f"{stem}.import.json"],
    )


def description(model: ImportedModel, said: Description) -> dict[str, object]:
    """What the cfg does not say: the model's own outputs, what was cut off, and where it came from."""
    sections = model.sections
    channels, height, width = sections.input_shape
    return {
        "format": "harness-import",
        "version": 1,
        "source": {
            "name": model.source.name,
            "sha256": _digest(model.source),
            "format": model.format,
        },
        "input": {
            "name": sections.input,
            "shape": [channels, height, width],
            **_grid(sections.grid(sections.input)),
        },
        "outputs": [
            {
                "name": output.name,
                "shape": list(output.shape),
                "section": output.section,
                **_grid(sections.grid(output.section)),
            }
            for output in model.outputs
        ],
        "cut": [_cut(cut) for cut in model.cuts],
        "metadata": dict(said.said),
        "warnings": list(model.warnings),
    }


def _digest(source: Path) -> str:
    """The SHA-256 of a file; that of the list which sha256sum would print of a folder's files."""
    if not source.is_dir():
        return file_digest(source)
    files = sorted(path.relative_to(source) for path in source.rglob("*") if path.is_file())
    listed = "".join(f"{file_digest(source / file)}  {file}\n" for file in files)
    return hashlib.sha256(listed.encode()).hexdigest()


def _grid(grid: Quantization | None) -> dict[str, object]:
    if grid is None or not grid.per_tensor:
        return {}
    return {"scale": grid.scales[0], "zero_point": grid.zero_points[0], "bits": grid.bits}


def _cut(cut: Cut) -> dict[str, object]:
    """An operation that the network ends before, with its options and constants, such as anchors."""
    return {
        "operator": cut.operator,
        "name": cut.name,
        "inputs": list(cut.inputs),
        "attributes": dict(cut.attributes),
        "constants": {
            name: {
                "shape": list(value.shape),
                "values": [float(f"{float(number):.9g}") for number in value.reshape(-1)],
            }
            for name, value in cut.constants.items()
        },
    }
