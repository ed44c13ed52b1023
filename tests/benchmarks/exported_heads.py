"""How far the heads of exports in fp32 are from the engine's, each format in its own runtime.

    python tests/benchmarks/exported_heads.py ../shared/data/models/*/*.cfg ../shared/data/cfgs/resnet50.cfg

A cfg without a weights file of the same name beside it gets random weights. The picture is random.

Prints for each network and format the largest difference of a head as a share of the head's largest value.
Ends with status 1 if one is above 1e-3 or a format refuses the network.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import figures
import numpy as np

from harness import console
from harness.config.darknet_cfg import read_cfg
from harness.config.export_formats import FORMATS
from harness.config.random_weights import SEED, write_random_weights
from harness.config.sweep import Model, Options, Variant
from harness.errors import HarnessError
from harness.runtimes.base import find_runtime
from harness.runtimes.engine import Floats, HostEngine, host_engine
from harness.sweep.model_file import exported_file
from harness.temporary import temporary_folder

_MOST = 1e-3
_RUNTIMES = {  # by the formats that they execute
    "onnx": "onnxruntime",
    "tflite": "litert",
    "saved-model": "tensorflow",
    "ncnn": "ncnn",
    "mnn": "mnn",
}


def main() -> int:
    assert set(_RUNTIMES) == set(FORMATS)
    parser = figures.parser(__doc__)
    parser.add_argument("cfgs", nargs="+", type=Path, metavar="CFG")
    parser.add_argument("--format", action="append", choices=tuple(FORMATS), dest="formats")
    arguments = parser.parse_args()
    formats = arguments.formats or list(_RUNTIMES)
    engine = host_engine()
    found: dict[str, float] = {}
    with console.progress("comparing heads", total=len(arguments.cfgs) * len(formats)) as bar:
        for cfg in arguments.cfgs:
            with temporary_folder("heads") as folder:
                weights = _weights(cfg, folder, engine)
                picture = _picture(cfg)
                heads = engine.forward(cfg, weights, picture).heads
                for name in formats:
                    model = Model(name=cfg.stem, cfg=cfg, weights=weights)
                    share = _difference(name, model, picture, heads, folder)
                    found[f"{cfg.stem} {name}"] = float(f"{share:.1e}")
                    bar.advance()
    if arguments.json:
        return figures.conclude(found, dict.fromkeys(found, _MOST), as_json=True)
    print(_table([cfg.stem for cfg in arguments.cfgs], formats, found))
    return 0 if max(found.values()) <= _MOST else 1


def _table(networks: Sequence[str], formats: Sequence[str], found: Mapping[str, float]) -> str:
    """As in docs/export.md."""
    rows = [["network", *(f"`{name}`" for name in formats)], ["---"] * (len(formats) + 1)]
    rows += [[each, *(f"{found[f'{each} {name}']:g}" for name in formats)] for each in networks]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _weights(cfg: Path, folder: Path, engine: HostEngine) -> Path:
    trained = cfg.with_suffix(".weights")
    if trained.is_file():
        return trained
    write_random_weights(folder / "random.weights", engine.info(cfg)["layers"], SEED)
    return folder / "random.weights"


def _picture(cfg: Path) -> Floats:
    return np.random.default_rng(SEED).random((1, *read_cfg(cfg).input_size), np.float32)


def _difference(name: str, model: Model, picture: Floats, heads: dict[int, Floats], folder: Path) -> float:
    """The largest share; infinite where the format or its runtime refuses the network."""
    runtime = find_runtime(_RUNTIMES[name])
    variant = Variant(model=model, policy="fp32", cfg=model.network)
    try:
        file = exported_file(runtime.export, variant, model.cfg, None, folder)
        outputs = runtime.outputs(file, picture, threads=1, options=Options())
    except HarnessError as error:
        console.warn(f"{model.name} as {name}: {error.message}")
        return float("inf")
    assert set(outputs) == set(heads)
    return max(
        float(np.abs(outputs[layer].reshape(head.shape) - head).max() / np.abs(head).max())
        for layer, head in heads.items()
    )


if __name__ == "__main__":
    sys.exit(main())
