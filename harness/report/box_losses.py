"""Which boxes of fp32 the recommended policies lose, from the detections of a run's evaluations."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness import console
from harness.accuracy.picture_detections import ComparedDetections, compare_pictures
from harness.errors import HarnessError
from harness.file_digest import file_digest
from harness.report.comparison import BASELINE, fp32_of
from harness.report.details import compared
from harness.report.result import BoxLoss, Report, Row
from harness.report.verdict import Verdict, verdicts
from harness.store.reader import StoreReader
from harness.store.records import PlannedCell

MOST = 4  # pictures of a page
_AT_ONCE = 2000  # pictures that are compared in half a second
_MOST_BYTES = 36_000  # of each
_SIDE = 560  # pixels of its longer side
_QUALITIES = (80, 60, 40, 20)  # of JPEG, until it is small enough


def box_losses(store: StoreReader, cells: Sequence[PlannedCell], report: Report) -> list[BoxLoss]:
    """Of the recommended cell of each board and model, or else of the fastest of the front. Boards share what
    is the same on all. `cells` are those of the report's rows."""
    keys = {id(row): cell.accuracy_key for row, cell in zip(report.rows, cells, strict=True)}
    found: dict[tuple[str, str], tuple[Row, list[str]]] = {}
    for verdict in verdicts(report):
        row, base = _pair(report, verdict)
        key, other = keys.get(id(row)), keys.get(id(base))
        if row is None or not key or not other or key == other:
            continue
        _, boards = found.setdefault((key, other), (row, []))
        if verdict.outcome == "recommended":
            boards.append(f"{verdict.target}{' (predicted)' if verdict.emulated else ''}")
    losses: list[BoxLoss] = []
    for keys_of_both, (row, boards) in found.items():
        if len(losses) == MOST:
            break
        pictures = [store.detections(key) for key in keys_of_both]
        if not all(pictures):
            continue
        slow = len(pictures[0]) > _AT_ONCE
        what = f"comparing the boxes of {row.model} {row.policy}"
        try:
            with console.progress(what, None) if slow else contextlib.nullcontext():
                losses.append(_loss(row, boards, compare_pictures(*pictures)))
        except ValueError as wrong:
            raise store.damaged(f"the detections of {row.model} {row.policy}: {wrong}") from None
    return losses


def _pair(report: Report, verdict: Verdict) -> tuple[Row | None, Row | None]:
    """The cell to show and its fp32 cell. None: there is none."""
    chosen = report.rows[verdict.cells[0]] if verdict.outcome == "recommended" else None
    if chosen is None or chosen.policy == BASELINE:
        chosen = next(reversed(compared(list(_done(report, verdict)))), None)
    return chosen, None if chosen is None else fp32_of(chosen, report.rows)


def _done(report: Report, verdict: Verdict) -> Iterator[Row]:
    place = verdict.target, verdict.model, verdict.emulated
    for row in report.rows:
        if (row.target, row.model, row.emulated) == place and row.status == "done" and not row.step:
            yield row


def _loss(row: Row, boards: Sequence[str], pictures: Sequence[ComparedDetections]) -> BoxLoss:
    worst = max(pictures, key=lambda picture: (picture.lost, picture.new))
    differs = worst.lost or worst.new
    jpeg, size, reason = _jpeg(worst) if differs else (b"", (0, 0), "")
    return BoxLoss(
        model=row.model,
        policy=row.policy,
        runtime=row.runtime,
        recommended_on=boards,
        pictures=len(pictures),
        kept=sum(picture.kept for picture in pictures),
        lost=sum(picture.lost for picture in pictures),
        new=sum(picture.new for picture in pictures),
        worst=worst if differs else None,
        jpeg=jpeg,
        jpeg_unavailable_reason=reason,
        size=size,
    )


def _jpeg(picture: ComparedDetections) -> tuple[bytes, tuple[int, int], str]:
    """A small copy of the picture and its size; or the reason why there is none."""
    from PIL import Image

    from harness.accuracy.pictures import read_picture

    path = Path(picture.found.path)
    try:
        if file_digest(path) != picture.found.sha256:
            return b"", (0, 0), f"{path} is not the picture that was evaluated."
        image = Image.fromarray(read_picture(path))
    except HarnessError as error:
        return b"", (0, 0), f"The picture cannot be read: {error}."
    image.thumbnail((_SIDE, _SIDE))
    while True:
        for quality in _QUALITIES:
            encoded = io.BytesIO()
            image.save(encoded, format="JPEG", quality=quality)
            if encoded.tell() <= _MOST_BYTES:
                return encoded.getvalue(), image.size, ""
        image.thumbnail((image.width // 2 or 1, image.height // 2 or 1))
