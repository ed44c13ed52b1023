"""All decoders by name, and the choice of one for a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.accuracy.decoders import faces, gfl, maps, ssd, yolo_heads, yolo_rows
from harness.accuracy.decoders.base import Decoder, DecoderKind, Network, Shape
from harness.config.decoders import DECODERS, NO_DECODER
from harness.errors import ConfigurationError

# In the order in which shapes are compared: what needs more tensors, or more exact shapes, comes first.
KINDS: tuple[DecoderKind, ...] = (
    *faces.KINDS,
    *gfl.KINDS,
    *maps.KINDS,
    *ssd.KINDS,
    *yolo_rows.KINDS,
    *yolo_heads.KINDS,
)


@dataclass(frozen=True, kw_only=True)
class ChosenDecoder:
    """A decoder for a network's outputs, and its kind's rules of suppression."""

    kind: DecoderKind
    decoder: Decoder
    guessed: bool  # from shapes


def named_decoder(word: str, where: str, shapes: Sequence[Shape], network: Network) -> ChosenDecoder:
    """The decoder of a word. Raises ConfigurationError, at the place `where`, if there is none or the outputs
    do not fit."""
    kind = next((kind for kind in KINDS if kind.word == word), None)
    if kind is None:
        raise ConfigurationError(
            f'{where}: unknown decoder "{word[:40]}"', hint=f"Choose from {', '.join(DECODERS)}."
        )
    decoder = kind.read(shapes, network)
    if decoder is None:
        fitting = [other.word for other in KINDS if other.read(shapes, network) is not None]
        raise ConfigurationError(
            f"{where}: the decoder {word} ({kind.what}) does not fit the outputs {shown(shapes)} of an "
            f"input of {network.width} x {network.height}",
            hint=f"These fit: {', '.join(fitting)}." if fitting else f"Use {NO_DECODER} for other outputs.",
        )
    return ChosenDecoder(kind=kind, decoder=decoder, guessed=False)


def guessed_decoder(shapes: Sequence[Shape], network: Network) -> ChosenDecoder | None:
    """The first kind whose shapes fit and that looks like it; None if there is none."""
    for kind in KINDS:
        decoder = kind.read(shapes, network)
        if decoder is not None and kind.looks(shapes, network):
            return ChosenDecoder(kind=kind, decoder=decoder, guessed=True)
    return None


def shown(shapes: Sequence[Shape]) -> str:
    """Shapes for messages: 3549x85, 80x80x3."""
    return ", ".join("x".join(map(str, shape)) or "1" for shape in shapes)
