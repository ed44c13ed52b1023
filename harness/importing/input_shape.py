"""The shape of a network's input: as the model declares it, completed by the user."""

from __future__ import annotations

from collections.abc import Sequence

from harness.errors import ConfigurationError
from harness.importing.graph import Shape, Source, check_size

IMAGE_CHANNELS = (1, 3, 4)
_MOST_AXES = 5


def checked_input_shape(declared: Shape, wanted: Shape | None, source: Source) -> Shape:
    """`wanted`, or else `declared` with a batch of one. Sizes that the model leaves open are 0 or less.

    Raises ConfigurationError if the shape is not known, or is not that of one image or vector.
    """
    if wanted is not None and len(wanted) != len(declared):
        raise ConfigurationError(
            f"{source.name}: the input has {len(declared)} axes, but the given shape has {len(wanted)}",
            hint=f"The model declares {shown(declared)}.",
        )
    shape = wanted or declared
    if wanted is None and shape and shape[0] <= 0:
        shape = (1, *shape[1:])
    for axis, (given, fixed) in enumerate(zip(shape, declared, strict=True)):
        if given <= 0:
            example = _example(shape)
            raise ConfigurationError(
                f"the size of the input {source.name!r} is not fixed: {shown(declared)}",
                hint=f"Give it: --input-shape {','.join(example)}, or in a sweep "
                f"input_shape: [{', '.join(example)}].",
            )
        if wanted is not None and fixed > 0 and axis > 0 and given != fixed and len(declared) != 4:
            raise ConfigurationError(f"the input {source.name!r} has the shape {shown(declared)}")
    if not 1 <= len(shape) <= _MOST_AXES:
        raise source.unsupported(f"it has {len(shape)} axes")
    if shape[0] != 1 and len(shape) > 1:
        raise source.unsupported(
            f"its batch is {shape[0]}; one image at a time can be imported",
            hint=f"Give --input-shape {','.join(map(str, (1, *shape[1:])))}, or input_shape in a sweep.",
        )
    check_size(shape, source)
    return shape


def picture_among(inputs: Sequence[Shape]) -> int:
    """The index of the input for pictures: the first with the shape of a batch of images, or the first."""
    return next((place for place, shape in enumerate(inputs) if len(shape) == 4), 0)


def _example(shape: Shape) -> list[str]:
    """A shape in which the user still has to replace letters."""
    usual = ("1", "3", "H", "W") if len(shape) == 4 else ("N",) * len(shape)
    return [str(size) if size > 0 else letter for size, letter in zip(shape, usual, strict=True)]


def shown(shape: Shape) -> str:
    """A shape as users write it, with ? for open sizes."""
    return ",".join(str(size) if size > 0 else "?" for size in shape)
