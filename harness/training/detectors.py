"""What the outputs of an imported detector say of each of its cells, so that training knows what matters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.accuracy.decoders.base import Decoder
from harness.accuracy.decoders.gfl import Distances
from harness.accuracy.decoders.maps import FASTESTDET_STRIDE, FastestDet
from harness.accuracy.decoders.yolo_rows import OffsetRows
from harness.accuracy.model import Model
from harness.accuracy.reading import Boxes


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Some columns of an output that is a table with a row for each cell, or a map."""

    layer: int  # whose output it is
    rows: int
    begin: int = 0
    end: int


@dataclass(frozen=True, kw_only=True)
class CellOutputs:
    """Where the probabilities and the boxes of cells are."""

    classes: Columns
    boxes: Columns  # offsets and sizes, or logits of the distributions of distances to the four sides
    objectness: Columns | None = None
    shares: bool = False  # the probabilities of classes sum to one
    distributions: bool = False  # boxes are distributions

    @staticmethod
    def from_json(words: Mapping[str, Any]) -> CellOutputs:
        """Of what `dataclasses.asdict` gives."""
        parts: dict[str, Any] = {
            name: Columns(**each) if isinstance(each, dict) else each for name, each in words.items()
        }
        return CellOutputs(**parts)


def cell_outputs(model: Model) -> Sequence[CellOutputs]:
    """Of a model's outputs; none if training does not know its decoder."""
    stated = model.outputs.stated
    if stated is None or not isinstance(model.reading, Boxes):
        return ()
    decoder = model.reading.chosen.decoder
    read = _READ.get(type(decoder))
    return read(decoder, stated.layers) if read else ()


def _of_yolox(decoder: OffsetRows, layers: Sequence[int]) -> list[CellOutputs]:
    rows = decoder.network.count(decoder.strides)
    return [_in_one_table(layers[0], rows, objectness=4, boxes=0, classes=decoder.classes)]


def _of_fastestdet(decoder: FastestDet, layers: Sequence[int]) -> list[CellOutputs]:
    rows = decoder.network.count([FASTESTDET_STRIDE])
    return [_in_one_table(layers[0], rows, objectness=0, boxes=1, classes=decoder.classes, shares=True)]


def _in_one_table(
    layer: int, rows: int, *, objectness: int, boxes: int, classes: int, shares: bool = False
) -> CellOutputs:
    return CellOutputs(
        classes=Columns(layer=layer, rows=rows, begin=5, end=5 + classes),
        boxes=Columns(layer=layer, rows=rows, begin=boxes, end=boxes + 4),
        objectness=Columns(layer=layer, rows=rows, begin=objectness, end=objectness + 1),
        shares=shares,
    )


def _of_distances(decoder: Distances, layers: Sequence[int]) -> list[CellOutputs]:
    return [
        CellOutputs(
            classes=Columns(
                layer=layers[scores.output], rows=decoder.network.count([scores.stride]), end=scores.columns
            ),
            boxes=Columns(
                layer=layers[sides.output], rows=decoder.network.count([sides.stride]), end=sides.columns
            ),
            distributions=True,
        )
        for scores, sides in decoder.pairs
    ]


_READ: Mapping[type[Decoder], Callable[[Any, Sequence[int]], list[CellOutputs]]] = {
    OffsetRows: _of_yolox,
    FastestDet: _of_fastestdet,
    Distances: _of_distances,
}
