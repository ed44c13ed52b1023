"""The outputs of an exported model: Darknet's heads, or an imported model's own outputs under their names."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ConfigurationError
from harness.exporting.network import Network
from harness.json_file import read_json

_LARGEST_DESCRIPTION = 64 << 20  # bytes
_SHAPE = re.compile(r"[0-9]{1,9}(x[0-9]{1,9})*")


@dataclass(frozen=True, kw_only=True)
class Output:
    """An output, and the layer that computes it."""

    name: str
    layer: int
    shape: tuple[int, ...]  # with the batch of one


def outputs_of(network: Network, cfg: Path) -> tuple[Output, ...]:
    """The outputs in their order. `cfg` is the user's own, beside which an import describes them.

    `head_12` is the tensor that `mpe forward --heads` writes as head_12.npy. Raises ConfigurationError if a
    described shape has another number of values than its layer.
    """
    if not network.outputs:
        heads = [index for index in network.heads if index >= 0]
        return tuple(Output(name=f"head_{index}", layer=index, shape=_map(network, index)) for index in heads)
    names = [network.name_of(index) for index in network.outputs]
    shapes = [_map(network, index) for index in network.outputs]
    described = _described(cfg, network)
    if described is not None:
        names, shapes = described
    written = network.net.word("output_shapes").split(",")
    if len(written) == len(names) and all(map(_SHAPE.fullmatch, written)):
        shapes = [(1, *map(int, word.split("x"))) for word in written]
    for index, name, shape in zip(network.outputs, names, shapes, strict=True):
        if math.prod(shape) != math.prod(network.shape_of(index)):
            raise ConfigurationError(
                f"{cfg}: the output {name} has {math.prod(network.shape_of(index))} values, not those of the "
                f"shape {'x'.join(map(str, shape))}",
                hint="Correct output_shapes, or import the model again.",
            )
    return tuple(
        Output(name=name, layer=index, shape=shape)
        for index, name, shape in zip(network.outputs, names, shapes, strict=True)
    )


def _map(network: Network, index: int) -> tuple[int, ...]:
    return 1, *network.shape_of(index)


def _described(cfg: Path, network: Network) -> tuple[list[str], list[tuple[int, ...]]] | None:
    """Names and shapes in the description of the import; None if it is not there or is of other outputs."""
    file = cfg.with_suffix(".import.json")
    if not file.is_file():
        return None
    data = read_json(file, limit=_LARGEST_DESCRIPTION, what="the description of an import")
    try:
        outputs = data["outputs"]
        if [output["section"] for output in outputs] != list(map(network.name_of, network.outputs)):
            return None
        names = [str(output["name"]) for output in outputs]
        return names, [tuple(int(size) for size in output["shape"]) for output in outputs]
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"{file}: not the description of an import ({type(error).__name__}: {error})",
            hint="Import the model again.",
        ) from None
