"""How the outputs of a network are read: as boxes, as a score per class, or not at all.

A reading is made once for a network, from its cfg and the shapes of its outputs. It takes one picture's
outputs, in the model's own order and shapes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.accuracy.boxes import Candidates, Detections, Floats, join
from harness.accuracy.decoders import darknet, registry
from harness.accuracy.decoders.base import Network, PriorBoxes, Shape
from harness.accuracy.decoders.registry import ChosenDecoder
from harness.accuracy.heads import DetectionHead
from harness.accuracy.names import BACKGROUNDS, named_columns, read_names
from harness.accuracy.nms import every_candidate, suppress, suppress_together
from harness.accuracy.picture_rules import PictureRules
from harness.accuracy.placement import Placement
from harness.accuracy.stated_outputs import StatedOutputs
from harness.config.decoders import CLASSIFIER, NO_DECODER
from harness.errors import ConfigurationError

# Pairs of a box and a class. Without the limit the AP of four detectors changes by at most 0.01.
_MOST_CANDIDATES = 3000
_IMAGENET_WITH_BACKGROUND = 1001
# As PyTorch's classifiers are trained: ImageNet's mean and deviation.
_CLASSIFIERS = PictureRules(resize="crop", mean=(123.675, 116.28, 103.53), std=(58.395, 57.12, 57.375))
_OTHERS = PictureRules(resize="stretch")


@dataclass(frozen=True, kw_only=True)
class DarknetBoxes:
    """The yolo and region layers of a Darknet cfg."""

    heads: tuple[DetectionHead, ...]
    network: tuple[int, int, int]  # channels, height, width
    names: tuple[str, ...] = ()
    guessed: bool = False
    word: str = ""
    least: float = 0.005  # confidence of detections that count in mAP; Darknet's

    @property
    def classes(self) -> int:
        """The number of classes."""
        return self.heads[0].classes

    def detections(self, outputs: Sequence[Floats], placement: Placement, threshold: float) -> Detections:
        """Detections on the picture, of the heads' tensors [channels, rows, columns]."""
        parts = [
            darknet.decode(head, tensor, self.network, threshold)
            for head, tensor in zip(self.heads, outputs, strict=True)
        ]
        # As in Darknet, the keys of the last head apply to all.
        last = self.heads[-1]
        return suppress(_placed(join(parts), placement), kind=last.nms_kind, beta=last.beta_nms)


@dataclass(frozen=True, kw_only=True)
class Boxes:
    """Boxes by one of the decoders."""

    chosen: ChosenDecoder
    columns: tuple[int, ...]  # of the decoder's classes that are used, in the order of the names
    names: tuple[str, ...] = ()  # of these classes, where the model states them
    overlap: float | None = None  # for suppression; None: none
    most: int  # detections per picture
    together: bool = False  # boxes keep their best class alone, and suppress those of other classes
    least: float = 0.001  # confidence of detections that count in mAP, as in the frameworks' own evaluations

    @property
    def classes(self) -> int:
        """The number of classes."""
        return len(self.columns)

    @property
    def guessed(self) -> bool:
        """Whether the decoder was chosen by shapes."""
        return self.chosen.guessed

    @property
    def word(self) -> str:
        """The decoder."""
        return self.chosen.kind.word

    def detections(self, outputs: Sequence[Floats], placement: Placement, threshold: float) -> Detections:
        """Detections on the picture."""
        with np.errstate(over="ignore", invalid="ignore"):  # a bad network gives infinities and NaN
            found = self.chosen.decoder.candidates(outputs, threshold)
        if len(self.columns) != found.probabilities.shape[1]:
            found = Candidates(boxes=found.boxes, probabilities=found.probabilities[:, self.columns])
        placed = _placed(_most_probable(found), placement)
        if self.overlap is None:
            detections = every_candidate(placed)
        elif self.together:
            detections = suppress_together(placed, threshold=self.overlap)
        else:
            detections = suppress(placed, threshold=self.overlap)
        return detections.best(self.most)


@dataclass(frozen=True, kw_only=True)
class Scores:
    """A score per class, in the first output."""

    outputs: int  # values in it
    background: bool = False  # the first is no class
    names: tuple[str, ...] = ()  # of the classes, where the model states them
    guessed: bool = False
    word: str = ""

    @property
    def classes(self) -> int:
        """The number of classes."""
        return self.outputs - self.background

    def scores(self, output: Floats) -> Floats:
        """[..., classes] of an output [..., values]."""
        return output[..., 1:] if self.background else output


@dataclass(frozen=True, kw_only=True)
class Unread:
    """Outputs that nothing here reads: they can only be compared with fp32's."""

    guessed: bool = True
    word: str = NO_DECODER
    classes: int = 0


Reading = DarknetBoxes | Boxes | Scores | Unread
BoxReading = DarknetBoxes | Boxes


def reading_of(stated: StatedOutputs, shapes: Sequence[Shape], size: tuple[int, int, int]) -> Reading:
    """The reading of an imported model's outputs, of these shapes, for an input of channels, height, width.

    Raises ConfigurationError if the decoder that the cfg names does not fit, or the labels cannot be read.
    """
    names = read_names(stated.labels) if stated.labels else []
    process = stated.post_process
    network = Network(
        height=size[1],
        width=size[2],
        names=len(names) or None,
        anchors=stated.anchors,
        priors=PriorBoxes(boxes=process.anchors, scales=process.scales, classes=process.classes)
        if process
        else None,
    )
    if stated.decoder == NO_DECODER:
        return Unread(guessed=False)
    if stated.decoder == CLASSIFIER:
        return _scores(shapes, names, guessed=False)
    if stated.decoder is not None:
        return _boxes(registry.named_decoder(stated.decoder, stated.where, shapes, network), names, stated)
    chosen = registry.guessed_decoder(shapes, network)
    if chosen is not None:
        return _boxes(chosen, names, stated)
    if len(shapes) == 1 and max(shapes[0], default=1) == math.prod(shapes[0]):
        return _scores(shapes, names, guessed=True)
    return Unread()


def usual_pictures(reading: Reading) -> PictureRules:
    """How networks with such outputs usually take pictures."""
    if isinstance(reading, Boxes):
        return reading.chosen.kind.pictures
    return _CLASSIFIERS if isinstance(reading, Scores) else _OTHERS


def check_detects(cfg: Path, reading: Reading | None) -> BoxReading:
    """The reading of a detector. Raises ConfigurationError for another network."""
    if not isinstance(reading, DarknetBoxes | Boxes):
        unread = isinstance(reading, Unread)
        raise ConfigurationError(
            f"{cfg}: not a detector: "
            + ("no decoder reads its outputs" if unread else "it has a score per class"),
            hint="Name a decoder with decoder= in [net]."
            if unread
            else "Use `harness eval` for the top-1 and top-5 of a classifier.",
        )
    return reading


def _boxes(chosen: ChosenDecoder, names: Sequence[str], stated: StatedOutputs) -> Boxes:
    classes = chosen.decoder.classes
    if len(names) == classes + 1 and names[0].strip().lower() in BACKGROUNDS:
        names = names[1:]
    columns = named_columns(names, classes)
    return Boxes(
        chosen=chosen,
        columns=columns,
        names=tuple(names[column] for column in columns) if len(names) == classes else (),
        overlap=stated.overlap or chosen.kind.overlap,
        most=stated.most or chosen.kind.most,
        together=stated.post_process is not None and stated.post_process.together,
    )


def _scores(shapes: Sequence[Shape], names: Sequence[str], *, guessed: bool) -> Scores:
    outputs = math.prod(shapes[0])
    first = names[0].strip().lower() if names else ""
    background = outputs == _IMAGENET_WITH_BACKGROUND or (len(names) == outputs and first in BACKGROUNDS)
    classes = tuple(names[1:] if len(names) == outputs and background else names)
    return Scores(
        outputs=outputs,
        background=background,
        names=classes if len(classes) == outputs - background else (),
        guessed=guessed,
        word=CLASSIFIER,
    )


def _most_probable(found: Candidates) -> Candidates:
    """The candidates before suppression, whose time grows with the square of their number."""
    probabilities = found.probabilities
    if np.count_nonzero(probabilities) > _MOST_CANDIDATES:
        least = np.partition(probabilities, -_MOST_CANDIDATES, axis=None)[-_MOST_CANDIDATES]
        probabilities = np.where(probabilities >= least, probabilities, 0)
    kept = probabilities.any(axis=1)
    return Candidates(boxes=found.boxes[kept], probabilities=probabilities[kept])


def _placed(found: Candidates, placement: Placement) -> Candidates:
    # Overlaps are computed on the picture: stretching it changes distances.
    return Candidates(boxes=placement.to_picture(found.boxes), probabilities=found.probabilities)
