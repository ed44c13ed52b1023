"""Damaged copies of a model file; seed and number determine each.

Half of all changes are outside of large constants, where the file's structure is: most of a model's bytes are
weights, and a file with another weight is still a model.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from onnx import TensorProto

_LARGE = 256  # bytes of a constant that is no structure
_EDGE = 64 << 10
_WIDTHS = (1, 2, 4, 8)  # bytes of an integer
_EXTREMES = (
    0,
    1,
    2,
    -1,
    -2,
    127,
    128,
    255,
    256,
    32767,
    65535,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**63 - 1,
    -(2**63),
)
_REALS = (0.0, -0.0, 1.0, -1.0, 1e-45, 3e38, float("inf"), float("-inf"), float("nan"))


@dataclass(frozen=True, kw_only=True)
class Mutation:
    """One damaged copy: the kinds of change, and the whole file."""

    kinds: tuple[str, ...]
    data: bytes


class Mutator:
    """Makes damaged copies of one file."""

    def __init__(self, content: bytes, seed: int) -> None:
        self.content = content
        self.seed = seed
        self._onnx = content[4:8] != b"TFL3"
        self._ranges = tuple(structure_of(content))
        self._ends = list(accumulate(end - begin for begin, end in self._ranges))
        self._kinds = [*_BYTES, *([_FIELD] * 6 if self._onnx else [])]

    def mutation(self, number: int) -> Mutation:
        """The copy of a number. One change in most copies, up to four in others."""
        chance = random.Random(f"{self.seed}/{number}")
        data = bytearray(self.content)
        kinds = []
        for _ in range(chance.choice((1, 1, 1, 2, 4))):
            kinds.append(chance.choice(self._kinds))
            if kinds[-1] == _FIELD:
                data = field_changed(data, chance)
            elif data:
                _BYTES[kinds[-1]](data, self._place(chance, len(data)), chance)
        return Mutation(kinds=tuple(kinds), data=bytes(data))

    def _place(self, chance: random.Random, length: int) -> int:
        """Of a change: half of them in the structure, a quarter at the file's ends, the others anywhere."""
        match chance.randrange(4):
            case 0 | 1 if self._ends:
                offset = chance.randrange(self._ends[-1])
                index = bisect_right(self._ends, offset)
                begin, end = self._ranges[index]
                place = end - (self._ends[index] - offset)
                return min(max(place, begin), length - 1)
            case 2:
                place = chance.randrange(min(_EDGE, length))
                return place if chance.random() < 0.5 else length - 1 - place
            case _:
                return chance.randrange(length)


def structure_of(content: bytes) -> Iterator[tuple[int, int]]:
    """The ranges of a file, from and to, that are not numbers of large constants."""
    begin = 0
    for place, end in sorted(_found(content)):
        if place > begin:
            yield begin, place
        begin = max(begin, end)
    if begin < len(content):
        yield begin, len(content)


def _found(content: bytes) -> Iterator[tuple[int, int]]:
    """The ranges of large constants."""
    after = 0
    for blob in _flat_constants(content) if content[4:8] == b"TFL3" else _onnx_constants(content):
        place = content.find(blob, after)
        place = place if place >= 0 else content.find(blob)
        if place >= 0:
            after = place + len(blob)
            yield place, after


def _onnx_constants(content: bytes) -> Iterator[bytes]:
    from onnx import ModelProto

    graph = ModelProto.FromString(content).graph
    attributes = (attribute for node in graph.node for attribute in node.attribute)
    for tensor in (*(a.t for a in attributes if a.HasField("t")), *graph.initializer):
        blob = _stored(tensor)
        if len(blob) >= _LARGE:
            yield blob


def _stored(tensor: TensorProto) -> bytes:
    """A constant's numbers as the file has them; nothing if they are neither bytes nor real numbers."""
    return bytes(tensor.raw_data) or np.array(tensor.float_data, "<f4").tobytes()


def _flat_constants(content: bytes) -> Iterator[bytes]:
    import tflite

    model = tflite.Model.GetRootAs(content, 0)
    for index in range(model.BuffersLength()):
        if model.Buffers(index).DataLength() >= _LARGE:
            yield model.Buffers(index).DataAsNumpy().tobytes()


def _truncated(data: bytearray, place: int, chance: random.Random) -> None:
    del data[place:]


def _flipped(data: bytearray, place: int, chance: random.Random) -> None:
    """Bits near one place."""
    for _ in range(chance.choice((1, 1, 2, 8))):
        data[min(place + chance.randrange(16), len(data) - 1)] ^= 1 << chance.randrange(8)


def _overwritten(data: bytearray, place: int, chance: random.Random) -> None:
    length = min(chance.choice((1, 2, 4, 8, 64)), len(data) - place)
    data[place : place + length] = _bytes(length, chance)


def _inserted(data: bytearray, place: int, chance: random.Random) -> None:
    data[place:place] = _bytes(chance.choice((1, 2, 4, 8, 64)), chance)


def _removed(data: bytearray, place: int, chance: random.Random) -> None:
    del data[place : place + chance.choice((1, 2, 4, 8, 64, 1024))]


def _bytes(length: int, chance: random.Random) -> bytes:
    return chance.choice((bytes(length), b"\xff" * length, b"\x7f" * length, chance.randbytes(length)))


def _number_changed(data: bytearray, place: int, chance: random.Random) -> None:
    """An integer of a fixed width at an address that is a multiple of it, as in flatbuffers."""
    width = chance.choice(_WIDTHS)
    place -= place % width
    part = data[place : place + width]
    value = int.from_bytes(part, "little")
    data[place : place + len(part)] = _other(value, chance).to_bytes(16, "little", signed=True)[: len(part)]


def _varint_changed(data: bytearray, place: int, chance: random.Random) -> None:
    """A variable-length integer, as in protocol buffers. Its length stays in half of the cases."""
    length = next((end for end in range(1, 11) if data[place + end - 1 : place + end] < b"\x80"), 10)
    value = sum((byte & 127) << (7 * shift) for shift, byte in enumerate(data[place : place + length]))
    value = _other(value, chance) % 2**64
    longer = length if chance.random() < 0.5 else max(1, -(-value.bit_length() // 7))
    groups = [value >> (7 * shift) & 127 for shift in range(longer)]
    data[place : place + length] = bytes([*(group | 128 for group in groups[:-1]), groups[-1]])


def _other(value: int, chance: random.Random) -> int:
    """An integer that is near, or extreme."""
    return chance.choice(
        (
            value + 1,
            value - 1,
            value * 2,
            value // 2,
            value ^ 1 << chance.randrange(32),
            chance.choice(_EXTREMES),
        )
    )


def _duplicated(data: bytearray, place: int, chance: random.Random) -> None:
    """A piece, once more at another place."""
    piece = data[place : place + chance.choice((4, 16, 64, 256, 1024))]
    other = chance.choice((place, chance.randrange(len(data))))
    data[other:other] = piece


def _swapped(data: bytearray, place: int, chance: random.Random) -> None:
    """Two pieces of one length."""
    length = chance.choice((1, 4, 16, 64, 256))
    first, second = sorted((place, (place + chance.choice((4, 8, 64, 4096))) % len(data)))
    length = min(length, second - first, len(data) - second)
    one, other = data[first : first + length], data[second : second + length]
    data[first : first + length], data[second : second + length] = other, one


_BYTES: Mapping[str, Callable[[bytearray, int, random.Random], None]] = {
    "truncated": _truncated,
    "bits flipped": _flipped,
    "overwritten": _overwritten,
    "inserted": _inserted,
    "removed": _removed,
    "number changed": _number_changed,
    "varint changed": _varint_changed,
    "duplicated": _duplicated,
    "swapped": _swapped,
}
# A wrong length makes most of a protocol buffer unreadable: this change keeps all lengths right.
_FIELD = "field changed"


def field_changed(data: bytearray, chance: random.Random) -> bytearray:
    """One field of one message of an ONNX file; nothing in a file that cannot be decoded any more."""
    from google.protobuf.message import DecodeError
    from onnx import ModelProto

    try:
        model = ModelProto.FromString(bytes(data))
        _change(model, chance)
        return bytearray(model.SerializeToString())
    except (DecodeError, ValueError, TypeError):
        return data


def _change(message: Any, chance: random.Random) -> None:
    """Goes down to a random message, and changes one of its fields."""
    while True:
        fields = message.ListFields()
        if not fields:
            return
        field, value = chance.choice(fields)
        if field.type != field.TYPE_MESSAGE:
            _change_scalar(message, field, value, chance)
            return
        if not hasattr(value, "append"):
            message = value
        elif chance.random() < 0.8:
            message = chance.choice(value)
        else:
            _change_list(value, chance)
            return


def _change_list(values: Any, chance: random.Random) -> None:
    """An element of a list once more, missing, or in another one's place."""
    first, second = chance.randrange(len(values)), chance.randrange(len(values))
    match chance.randrange(3):
        case 0:
            values.append(values[first])
        case 1:
            del values[first]
        case _:
            copied = list(values)
            copied[first], copied[second] = copied[second], copied[first]
            kept = [type(copied[0]).FromString(one.SerializeToString()) for one in copied]
            del values[:]
            values.extend(kept)


def _change_scalar(message: Any, field: Any, value: Any, chance: random.Random) -> None:
    if chance.random() < 0.1:
        message.ClearField(field.name)
    elif not hasattr(value, "append"):
        setattr(message, field.name, _other_scalar(value, chance))
    elif chance.random() < 0.2:
        value.append(value[chance.randrange(len(value))])
    elif chance.random() < 0.2:
        del value[chance.randrange(len(value))]
    else:
        place = chance.randrange(len(value))
        value[place] = _other_scalar(value[place], chance)


def _other_scalar(value: Any, chance: random.Random) -> Any:
    if isinstance(value, float):
        return chance.choice((*_REALS, value * 2, -value))
    if isinstance(value, int):
        return _other(value, chance)
    changed = bytearray(value.encode() if isinstance(value, str) else value)
    if changed:
        chance.choice((_truncated, _flipped, _removed, _inserted))(
            changed, chance.randrange(len(changed)), chance
        )
    return changed.decode("utf-8", "ignore") if isinstance(value, str) else bytes(changed)
