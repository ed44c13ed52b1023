"""What a detector shows in each picture of an evaluation: kept for later comparisons of two policies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.accuracy.boxes import Detections

Box = tuple[float, float, float, float]  # left, top, width, height; fractions of the picture
FARTHEST = 10.0  # in a box: outputs of some networks overflow


@dataclass(frozen=True, kw_only=True)
class Detection:
    """An object that was found."""

    name: str  # of its class
    confidence: float
    box: Box


@dataclass(frozen=True, kw_only=True)
class PictureDetections:
    """The detections of one picture that `harness detect` would show, the most confident first."""

    path: str
    sha256: str  # of the picture's file
    found: Sequence[Detection]


@dataclass(frozen=True, kw_only=True)
class ComparedDetections:
    """The detections of one picture under a policy and in fp32, and which of them match."""

    found: PictureDetections
    reference: PictureDetections  # in fp32
    places: Sequence[int]  # of each one found: the place of its match in the reference, or -1

    @property
    def kept(self) -> int:
        """The number of detections that both have."""
        return sum(place >= 0 for place in self.places)

    @property
    def lost(self) -> int:
        """The number of those that only fp32 has."""
        return len(self.reference.found) - self.kept

    @property
    def new(self) -> int:
        """The number of those that only the policy has."""
        return len(self.places) - self.kept


def shown_detections(
    paths: Iterable[Path], detections: Iterable[Detections], names: Sequence[str]
) -> list[PictureDetections]:
    """What is kept of the detections of these pictures; `names` are those of the classes."""
    import numpy as np

    from harness.accuracy.agreement import CONFIDENCE
    from harness.file_digest import file_digest

    shown = []
    for path, every in zip(paths, detections, strict=True):
        some = every.above(CONFIDENCE)
        some = some.best(len(some))
        corners = np.nan_to_num(some.corners()).clip(-FARTHEST, FARTHEST)
        rows = zip(some.classes.tolist(), some.confidences.tolist(), corners.tolist(), strict=True)
        found = [
            Detection(name=names[number], confidence=round(confidence, 4), box=_rounded(box))
            for number, confidence, box in rows
        ]
        shown.append(PictureDetections(path=str(path.absolute()), sha256=file_digest(path), found=found))
    return shown


def _rounded(corners: Sequence[float]) -> Box:
    left, top, width, height = (round(part, 5) for part in corners)
    return left, top, width, height


def compare_pictures(
    found: Sequence[PictureDetections], reference: Sequence[PictureDetections]
) -> list[ComparedDetections]:
    """The pictures of two evaluations, compared as in `harness detect --compare`. Raises ValueError if they
    are not of the same pictures."""
    from harness.accuracy.agreement import matches

    if [each.sha256 for each in found] != [each.sha256 for each in reference]:
        raise ValueError("the evaluations are of different pictures")
    compared = []
    for some, other in zip(found, reference, strict=True):
        numbers: dict[str, int] = {}
        pair = [_as_arrays(each.found, numbers) for each in (some, other)]
        compared.append(ComparedDetections(found=some, reference=other, places=matches(*pair).tolist()))
    return compared


def _as_arrays(found: Sequence[Detection], numbers: dict[str, int]) -> Detections:
    """`numbers` gets a number for each name of a class."""
    import numpy as np

    from harness.accuracy.boxes import Detections

    boxes = np.array([each.box for each in found], np.float32).reshape(-1, 4)
    boxes[:, :2] += boxes[:, 2:] / 2
    return Detections(
        boxes=boxes,
        classes=np.array([numbers.setdefault(each.name, len(numbers)) for each in found], np.intp),
        confidences=np.array([each.confidence for each in found], np.float32),
    )
