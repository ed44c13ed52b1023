"""Reads how a picture is prepared from TensorFlow Lite's metadata, which is a flatbuffer of its own.

Only two lists are read: mean and deviation of the first input. Positions are those of the fields in
metadata_schema.fbs.
"""

from __future__ import annotations

import math
import struct
from typing import Any

_SUBGRAPHS, _INPUTS, _PROCESSES, _OPTION_KIND, _OPTION, _MEAN, _STD = 3, 2, 4, 0, 1, 0, 1
_NORMALIZATION = 1  # of the union ProcessUnitOptions
_MOST = 16  # processes, and numbers in a list

Normalization = tuple[tuple[float, ...], tuple[float, ...]]


def normalization_of(data: bytes) -> Normalization | None:
    """Mean and deviation of the first input's pixels; None if the metadata has none or is damaged."""
    from flatbuffers import encode, packer
    from flatbuffers.table import Table

    if not data:
        return None
    try:
        root = Table(bytearray(data), encode.Get(packer.uoffset, data, 0))
        subgraph = _element(root, _SUBGRAPHS, 0)
        first = subgraph and _element(subgraph, _INPUTS, 0)
        for place in range(_MOST):
            unit = first and _element(first, _PROCESSES, place)
            if not unit:
                return None
            found = _normalization(unit)
            if found:
                return found
    except (struct.error, IndexError, ValueError, TypeError, OverflowError):
        return None
    return None


def _offset(table: Any, field: int) -> int:
    return int(table.Offset(4 + 2 * field))


def _element(table: Any, field: int, place: int) -> Any:
    """An element of a list of tables; None if it has no such element."""
    from flatbuffers.table import Table

    offset = _offset(table, field)
    if not offset or place >= table.VectorLen(offset):
        return None
    return Table(table.Bytes, table.Indirect(table.Vector(offset) + 4 * place))


def _normalization(unit: Any) -> Normalization | None:
    from flatbuffers.number_types import Uint8Flags
    from flatbuffers.table import Table

    kind, options = _offset(unit, _OPTION_KIND), _offset(unit, _OPTION)
    if not kind or not options or unit.Get(Uint8Flags, kind + unit.Pos) != _NORMALIZATION:
        return None
    table = Table(unit.Bytes, unit.Indirect(options + unit.Pos))
    mean, deviation = _floats(table, _MEAN), _floats(table, _STD)
    usable = mean and deviation and all(map(math.isfinite, mean)) and all(map(math.isfinite, deviation))
    return (mean, deviation) if usable and all(deviation) else None


def _floats(table: Any, field: int) -> tuple[float, ...]:
    from flatbuffers.number_types import Float32Flags

    offset = _offset(table, field)
    if not offset:
        return ()
    number, start = table.VectorLen(offset), table.Vector(offset)
    if number > _MOST:
        return ()
    return tuple(float(table.Get(Float32Flags, start + 4 * place)) for place in range(number))
