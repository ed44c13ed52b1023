"""The outputs of a network on some pictures, compared with fp32's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from harness.accuracy.agreement import FAINT, detection_agreement, detection_similarity
from harness.accuracy.boxes import Detections, Floats
from harness.accuracy.classify import top_accuracy
from harness.accuracy.mean_ap import coco_scores
from harness.accuracy.output_agreement import OutputNoise, compare_outputs
from harness.accuracy.placement import Placement
from harness.accuracy.reading import Boxes, BoxReading, DarknetBoxes, Reading, Scores
from harness.accuracy.truth import Dataset
from harness.search.evaluation import Evaluation


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """How a picture was fitted to the network's input."""

    placement: Placement
    size: tuple[int, int]  # width and height of the picture, in pixels


class Judge(Protocol):
    """Scores what a network says about pictures, for one way to read its outputs."""

    @property
    def metric(self) -> str | None:
        """What `accuracy` is; None without labels."""

    def read(self, outputs: Sequence[Floats], fitted: Fitted) -> Any:
        """What the outputs of one picture say."""

    def agreement(self, found: Sequence[Any], expected: Sequence[Any]) -> float | None:
        """With fp32; None: that of the values themselves."""

    def similarity(self, found: Sequence[Any], expected: Sequence[Any]) -> float | None:
        """To fp32; None: that of the values themselves."""

    def accuracy(self, found: Sequence[Any], fitted: Sequence[Fitted]) -> float | None: ...


class Detector:
    """Detections, and their mAP@0.5."""

    def __init__(self, reading: BoxReading, data: Dataset) -> None:
        truths = [picture.truth for picture in data.pictures if picture.truth is not None]
        labelled = data.kind == "boxes" and any((~truth.crowd).any() for truth in truths)
        self.metric = "map50" if labelled else None
        self._reading, self._truths = reading, truths
        # mAP counts even fainter detections.
        self._threshold = reading.least if labelled else FAINT

    def read(self, outputs: Sequence[Floats], fitted: Fitted) -> Detections:
        return self._reading.detections(outputs, fitted.placement, self._threshold)

    def agreement(self, found: Sequence[Detections], expected: Sequence[Detections]) -> float:
        return detection_agreement(found, expected)

    def similarity(self, found: Sequence[Detections], expected: Sequence[Detections]) -> float:
        return detection_similarity(found, expected)

    def accuracy(self, found: Sequence[Detections], fitted: Sequence[Fitted]) -> float | None:
        if self.metric is None:
            return None
        return coco_scores(found, self._truths, [each.size for each in fitted]).ap50


class Classifier:
    """Scores of classes, and their top-1."""

    def __init__(self, reading: Scores, data: Dataset) -> None:
        self.metric = "top1" if data.kind == "classes" else None
        self._reading = reading
        self._labels = np.array([picture.label for picture in data.pictures]) if self.metric else None

    def read(self, outputs: Sequence[Floats], fitted: Fitted) -> Floats:  # noqa: ARG002
        return self._reading.scores(outputs[0].reshape(-1))

    def agreement(self, found: Sequence[Floats], expected: Sequence[Floats]) -> float:
        return float(
            np.mean([one.argmax() == other.argmax() for one, other in zip(found, expected, strict=True)])
        )

    def similarity(self, found: Sequence[Floats], expected: Sequence[Floats]) -> None:
        """That of the values."""

    def accuracy(self, found: Sequence[Floats], fitted: Sequence[Fitted]) -> float | None:  # noqa: ARG002
        return None if self._labels is None else top_accuracy(np.stack(found), self._labels, 1)


class Values:
    """Outputs that nothing reads."""

    metric = None

    def read(self, outputs: Sequence[Floats], fitted: Fitted) -> None:
        """Nothing."""

    def agreement(self, found: Sequence[None], expected: Sequence[None]) -> None:
        """That of the values."""

    def similarity(self, found: Sequence[None], expected: Sequence[None]) -> None:
        """That of the values."""

    def accuracy(self, found: Sequence[None], fitted: Sequence[Fitted]) -> None:
        """Unknown."""


def judge_of(reading: Reading, data: Dataset) -> Judge:
    """The judge of a network with such outputs."""
    if isinstance(reading, DarknetBoxes | Boxes):
        return Detector(reading, data)
    return Classifier(reading, data) if isinstance(reading, Scores) else Values()


@dataclass(frozen=True, kw_only=True)
class Reference:
    """fp32's outputs of every picture, and what they say."""

    judge: Judge
    fitted: Sequence[Fitted]
    outputs: list[list[Floats]] = field(default_factory=list)  # [pictures][outputs]
    said: list[Any] = field(default_factory=list)  # [pictures]

    def add(self, outputs: list[Floats]) -> None:
        """fp32's outputs of another picture."""
        self.said.append(self.judge.read(outputs, self.fitted[len(self.said)]))
        self.outputs.append([_finite(tensor) for tensor in outputs])

    def compare(self, pictures: Iterable[Sequence[Floats]]) -> Evaluation:
        """Compares the outputs of all pictures, in their order, with fp32's."""
        found: list[Any] = []

        def pairs() -> Iterator[tuple[list[Floats], list[Floats]]]:
            for fitted, outputs, expected in zip(self.fitted, pictures, self.outputs, strict=True):
                found.append(self.judge.read(outputs, fitted))
                yield [_finite(tensor) for tensor in outputs], expected

        names = [str(number) for number in range(len(self.outputs[0]))]
        rows = compare_outputs(names, pairs())
        noise = relative_noise(rows)
        agreement = self.judge.agreement(found, self.said)
        similarity = self.judge.similarity(found, self.said)
        return Evaluation(
            similarity=1 / (1 + noise) if similarity is None else similarity,
            agreement=float(np.mean([row.agreement for row in rows])) if agreement is None else agreement,
            noise=noise,
            accuracy=self.judge.accuracy(found, self.fitted),
        )


def relative_noise(rows: Iterable[OutputNoise]) -> float:
    """The mean over the outputs of each one's noise in relation to its own signal: outputs with large values,
    such as boxes in pixels, count no more than others. Outputs that are all zero in fp32 do not count."""
    shares = [row.noise / row.signal for row in rows if row.signal]
    return float(np.mean(shares)) if shares else 0.0


def _finite(tensor: Floats) -> Floats:
    """Infinite values and NaN count as lost: as zero."""
    return np.nan_to_num(tensor, nan=0.0, posinf=0.0, neginf=0.0)
