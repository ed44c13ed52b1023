"""The sweep that `harness advise` runs: a model in the precisions and runtimes that can execute it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from harness.config.darknet_cfg import DarknetCfg
from harness.config.file_kind import kind_of
from harness.config.import_options import IMPORT_KEYS, ImportOptions
from harness.config.policy import AS_IS
from harness.config.runtimes import RUNTIMES
from harness.runtimes.base import find_runtime

_DYNAMIC = {"name": "int8-dynamic", "default": "int8", "quantize": 1}
_TFLITE = [{"tflite": "full-integer"}, {"tflite": "16x8"}]  # that no policy of precisions stands for


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user wants advice for."""

    cfg: Path
    weights: Path
    target: str  # a name, or the path of a file
    source: Path | None = None  # of an imported model: its own file
    import_options: ImportOptions = field(default_factory=ImportOptions)
    dataset: Path | None = None
    labels: Path | None = None
    resize: str | None = None
    limit: int | None = None
    calibration: Path | None = None
    threads: Sequence[int] = (1,)
    runtimes: Sequence[str] = ()  # none: all that can execute the model

    @property
    def name(self) -> str:
        """The model's name in the sweep."""
        stem = (self.source or self.cfg).stem
        return re.sub(r"[^A-Za-z0-9._+-]", "-", stem).lstrip("._+-")[:40] or "model"


def sweep_text(request: Request, network: DarknetCfg) -> str:
    """The sweep file. Paths in it are absolute. `network` is that of the request's cfg."""
    target = request.target
    sweep = {
        "name": f"advise-{request.name}",
        "models": [_model(request)],
        "policies": policies(
            network,
            ranges=bool(request.dataset or request.calibration),
            tflite="litert" in request.runtimes and request.dataset is not None and not request.calibration,
        ),
        "targets": [str(Path(target).absolute()) if target.endswith((".yaml", ".yml")) else target],
        "runtimes": list(request.runtimes or runtimes_for(request.source)),
        "threads": list(request.threads),
    }
    comment = "# Written by `harness advise`. To run it by hand: harness run --matrix FILE --results FOLDER\n"
    return comment + yaml.safe_dump(sweep, sort_keys=False, allow_unicode=True)


def policies(network: DarknetCfg, *, ranges: bool, tflite: bool = False) -> list[Any]:
    """As a sweep file has them: float16, dynamic range, with `ranges` int8, and with `tflite` the others of
    TensorFlow Lite; those of a model with precisions of its own are left as they are."""
    if any(layer.precision != "fp32" for layer in network.weighted):
        return ["fp32", AS_IS]
    return ["fp32", "fp16", _DYNAMIC, *(["int8"] if ranges else []), *(_TFLITE if tflite else [])]


def runtimes_for(source: Path | None) -> list[str]:
    """The runtimes that can execute a model file, or its export to ONNX: exports to other formats need
    TensorFlow, which a sweep has to ask for."""
    kind = kind_of(source) if source else None
    runtimes = {name: find_runtime(name) for name in RUNTIMES}
    return [
        name
        for name, runtime in runtimes.items()
        if not runtime.formats or runtime.export == "onnx" or kind in runtime.formats
    ]


def _model(request: Request) -> dict[str, Any]:
    options = {key: getattr(request.import_options, key) for key in IMPORT_KEYS}
    files = (
        {"model": request.source, **options}
        if request.source
        else {"cfg": request.cfg, "weights": request.weights}
    )
    more = {key: getattr(request, key) for key in ("dataset", "labels", "resize", "limit", "calibration")}
    return {
        "name": request.name,
        **{key: _written(value) for key, value in (files | more).items() if value is not None},
    }


def _written(value: object) -> object:
    if isinstance(value, Path):
        return str(value.absolute())
    return list(value) if isinstance(value, tuple) else value
