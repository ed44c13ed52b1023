"""A picture with the boxes of fp32 beside the same picture with those of a policy, as a part of a page."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.accuracy.agreement import CONFIDENCE, IOU
from harness.accuracy.picture_detections import ComparedDetections, Detection
from harness.report.charts.figure import data_table
from harness.report.page import text
from harness.report.result import BoxLoss
from harness.report.table import NOTHING

STYLE = """
.sides { display: flex; flex-wrap: wrap; gap: 1rem; }
.sides > div { flex: 1 1 20rem; max-width: 35rem; }
.sides p { margin: .5rem 0 .2rem; }
.sides svg { display: block; width: 100%; height: auto; }
.sides rect { fill: none; stroke: #000; stroke-width: 5; }
.sides rect + rect { stroke: #7fd0ff; stroke-width: 2.5; }
.sides .lost rect + rect { stroke: #ff6b5e; stroke-width: 4; stroke-dasharray: 12 6; }
.sides .new rect + rect { stroke: #ffd400; stroke-width: 4; stroke-dasharray: 3 5; }
.sides text { font: 600 16px system-ui, sans-serif; fill: #fff; stroke: #000; stroke-width: 4; }
.sides text { paint-order: stroke; stroke-linejoin: round; }
"""
_SIDE = 560  # units of the longer side of a drawing
_LETTER, _LINE = 9, 16  # units: about the width of a letter, and the height of a line
_MOST_NAMED = 20  # detections that the description of a drawing names
_MOST_DRAWN = 40  # boxes of a drawing, and twice as many rows of its table: the page stays small


@dataclass(frozen=True)
class _Box:
    detection: Detection
    kind: str  # kept, lost or new

    @property
    def caption(self) -> str:
        mark = "" if self.kind == "kept" else f"{self.kind} "
        return f"{mark}{self.detection.name}: {_percent(self.detection)} %"


def box_figure(loss: BoxLoss, number: int) -> str:
    """The figure; `number` is its place among those of the page."""
    caption = f"<figcaption>{text(_caption(loss))}</figcaption>\n"
    if loss.worst is None:
        return f"<figure>{caption}</figure>\n"
    data = data_table(["class", "fp32 %", f"{loss.policy} %", "box"], _rows(loss.worst))
    if not loss.jpeg:
        missing = f"No picture: {loss.jpeg_unavailable_reason}"
        return f'<figure>{caption}<p class="notes">{text(missing)}</p>{data}</figure>\n'
    name = f"picture{number}"
    scale = _SIDE / max(loss.size)
    width, height = (round(side * scale) for side in loss.size)
    encoded = base64.b64encode(loss.jpeg).decode()
    size = f'width="{width}" height="{height}"'
    image = f'<image id="{name}" href="data:image/jpeg;base64,{encoded}" {size} preserveAspectRatio="none"/>'
    kept = set(loss.worst.places)
    fp32 = [
        _Box(each, "kept" if place in kept else "lost")
        for place, each in enumerate(loss.worst.reference.found)
    ]
    policy = [
        _Box(each, "new" if place < 0 else "kept")
        for place, each in zip(loss.worst.places, loss.worst.found.found, strict=True)
    ]
    sides = (
        _side("fp32", image, fp32, width, height),
        _side(loss.policy, f'<use href="#{name}"/>', policy, width, height),
    )
    return f'<figure>{caption}<div class="sides">{"".join(sides)}</div>{data}</figure>\n'


def _caption(loss: BoxLoss) -> str:
    where = "" if loss.runtime == "engine" else f" in {loss.runtime}"
    boards = ", ".join(loss.recommended_on)
    role = f"recommended on {boards}" if boards else "the fastest of the front"
    what = f"{loss.model}: {loss.policy}{where} ({role}) against fp32."
    rule = (
        f"Boxes of more than {100 * CONFIDENCE:g} % confidence count; a box is kept if the policy finds one "
        f"of its class that overlaps it by at least {100 * IOU:g} % (IoU)."
    )
    if loss.worst is None:
        return f"{what} In {_pictures(loss)} no box is lost or new; {loss.kept} are kept. {rule}"
    name, most = Path(loss.worst.found.path).name, "lost" if loss.worst.lost else "new"
    return (
        f"{what} Of {_pictures(loss)}, {name} is the one with the most {most} boxes: "
        f"{_counts(loss.worst)}. All pictures: {_counts(loss)}. Dashed frames are lost, dotted ones new. "
        f"{rule}"
    )


def _pictures(loss: BoxLoss) -> str:
    return f"{loss.pictures} picture{'s'[: loss.pictures > 1]}"


def _counts(boxes: BoxLoss | ComparedDetections) -> str:
    return f"{boxes.kept} kept, {boxes.lost} lost, {boxes.new} new"


def _side(title: str, image: str, boxes: Sequence[_Box], width: int, height: int) -> str:
    # The most confident are on top, and the marked ones above all.
    first = sorted(boxes, key=lambda box: box.kind == "kept")[:_MOST_DRAWN]
    drawn = "".join(_drawn(box, width, height) for box in first[::-1])
    some = f", {len(first)} of {len(boxes)} boxes" if len(first) < len(boxes) else ""
    return (
        f"<div><p>{text(title)}{some}</p>"
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{text(_description(title, boxes))}">'
        f"{image}{drawn}</svg></div>"
    )


def _drawn(box: _Box, width: int, height: int) -> str:
    """The frame, light on dark so that it shows on any picture, with its caption above it or within."""
    sizes = (width, height, width, height)
    left, top, wide, high = (
        round(part * size, 1) for part, size in zip(box.detection.box, sizes, strict=True)
    )
    frame = f'<rect x="{left}" y="{top}" width="{max(wide, 0)}" height="{max(high, 0)}"/>'
    caption = box.caption
    x = max(2.0, min(left, width - _LETTER * len(caption)))
    y = max(top - 5, 0) if top > _LINE + 5 else top + _LINE + 3
    y = min(max(y, _LINE), height - 3)
    return f'<g class="{box.kind}">{frame}{frame}<text x="{x:g}" y="{y:g}">{text(caption)}</text></g>'


def _description(title: str, boxes: Sequence[_Box]) -> str:
    """The drawing in words."""
    parts = [f"Boxes of {title}: {len(boxes)}."]
    for kind in ("lost", "new", "kept"):
        named = [_words(box.detection) for box in boxes if box.kind == kind]
        if named:
            more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
            parts.append(f"{kind.capitalize()}: {', '.join(named[:_MOST_NAMED])}{more}.")
    return " ".join(parts)


def _rows(picture: ComparedDetections) -> list[list[str]]:
    """The boxes of fp32, each with its match, then the new ones; the lost and the new ones before others if
    there are very many."""
    matches = dict(zip(picture.places, picture.found.found, strict=True))
    rows = [
        [each.name, _percent(each), _percent(match), "kept" if match else "lost"]
        for place, each in enumerate(picture.reference.found)
        for match in [matches.get(place)]
    ]
    news = [each for place, each in zip(picture.places, picture.found.found, strict=True) if place < 0]
    rows += [[each.name, NOTHING, _percent(each), "new"] for each in news]
    if len(rows) > 2 * _MOST_DRAWN:
        rows = sorted(rows, key=lambda cells: cells[-1] == "kept")[: 2 * _MOST_DRAWN]
    return rows


def _words(detection: Detection) -> str:
    return f"{detection.name} {_percent(detection)} %"


def _percent(detection: Detection | None) -> str:
    return NOTHING if detection is None else f"{100 * detection.confidence:.0f}"
