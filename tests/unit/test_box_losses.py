"""What pages say about the boxes that a policy loses."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cells_in_store import done, planned, scores
from hypothesis import given
from PIL import Image
from test_report_escaping import NAMES, Page

from harness.accuracy.boxes import Detections
from harness.accuracy.picture_detections import (
    Box,
    Detection,
    PictureDetections,
    compare_pictures,
    shown_detections,
)
from harness.errors import ConfigurationError
from harness.file_digest import file_digest
from harness.report.box_figure import box_figure
from harness.report.box_losses import MOST
from harness.report.html import html
from harness.report.read import read_report
from harness.report.result import BoxLoss, Report
from harness.store.store import Store

DOG: Box = (0.1, 0.2, 0.4, 0.5)
CAT: Box = (0.6, 0.1, 0.3, 0.3)
MAN: Box = (0.0, 0.0, 0.9, 0.9)


def picture(path: Path, *found: tuple[str, Box]) -> PictureDetections:
    if not path.exists():
        noise = np.random.default_rng(0).integers(0, 256, (900, 700, 3), np.uint8)
        Image.fromarray(noise).save(path)
    detections = [Detection(name=name, confidence=0.5, box=box) for name, box in found]
    return PictureDetections(path=str(path), sha256=file_digest(path), found=detections)


def read(folder: Path, evaluations: Mapping[str, Sequence[PictureDetections]], models: int = 1) -> Report:
    """The report of a sweep in which fp32 is the slowest policy."""
    with Store(folder / "results") as store:
        run = store.begin_run(sweep="s", file="s.yaml", fresh=False)
        cells = [
            planned(
                f"{policy}{model}", f"accuracy {policy}{model}", policy=policy, model=f"m{model}", **board
            )
            for model in range(models)
            for policy in evaluations
            for board in ({}, {"threads": 2})
        ]
        store.plan(run, cells)
        for model in range(models):
            for speed, (policy, pictures) in enumerate(evaluations.items(), start=1):
                store.complete_cell(run, f"{policy}{model}", done(fps=10.0 * speed))
                outcome = replace(scores(map50=0.5, images=len(pictures)), detections=pictures)
                store.complete_evaluation(run, f"accuracy {policy}{model}", "accuracy", outcome)
        return read_report(store, run.id, "s", details=True)


def test_what_detect_shows_is_kept_the_most_confident_first(tmp_path: Path) -> None:
    path = tmp_path / "one.png"
    expected = picture(path, ("dog", DOG), ("cat", CAT))
    left, top, width, height = zip(DOG, CAT, MAN, strict=True)
    boxes = np.stack([left, top, width, height], axis=1).astype(np.float32)
    boxes[:, :2] += boxes[:, 2:] / 2
    found = Detections(
        boxes=boxes[[1, 0, 2]],
        classes=np.array([1, 0, 0]),
        confidences=np.array([0.4, 0.7, 0.25], np.float32),
    )
    (shown,) = shown_detections([path], [found], ["dog", "cat"])
    assert (shown.path, shown.sha256) == (str(path), expected.sha256)
    assert [(each.name, each.confidence) for each in shown.found] == [("dog", 0.7), ("cat", 0.4)]
    assert [each.box for each in shown.found] == [pytest.approx(DOG), pytest.approx(CAT)]


def test_boxes_of_outputs_that_overflow_stay_finite(tmp_path: Path) -> None:
    picture(tmp_path / "one.png")
    boxes = np.array([[0.5, np.nan, np.inf, 1e30]], np.float32)
    found = Detections(boxes=boxes, classes=np.array([0]), confidences=np.array([0.9], np.float32))
    (shown,) = shown_detections([tmp_path / "one.png"], [found], ["dog"])
    assert shown.found[0].box == (-10, 0, 10, 10)


def test_damaged_detections_are_an_error_that_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "one.png"
    evaluations = {"fp32": [picture(path, ("dog", DOG))], "int8": [picture(path)]}
    read(tmp_path, evaluations)
    for wrong, said in (
        ("[[1]]", "the detections in a picture"),
        ('[["dog",2,0,0,1,1]]', "<= 1"),
        ("[", "truncated"),
    ):
        with (
            contextlib.closing(sqlite3.connect(tmp_path / "results" / "results.sqlite")) as database,
            database,
        ):
            database.execute("UPDATE detections SET found = ?", (wrong,))
        with (
            Store(tmp_path / "results") as store,
            pytest.raises(ConfigurationError, match=re.escape(said)) as raised,
        ):
            read_report(store, 1, "s", details=True)
        assert "results.sqlite" in raised.value.message
    other = [replace(evaluations["int8"][0], sha256="other")]
    with pytest.raises(ConfigurationError, match="m0 int8: the evaluations are of different pictures"):
        read(tmp_path, evaluations | {"int8": other})


def test_a_box_is_kept_if_its_class_is_found_where_it_was(tmp_path: Path) -> None:
    reference = picture(tmp_path / "one.png", ("dog", DOG), ("cat", CAT), ("man", MAN))
    found = picture(tmp_path / "one.png", ("cat", DOG), ("man", MAN))
    (compared,) = compare_pictures([found], [reference])
    assert compared.places == [-1, 2]
    assert (compared.kept, compared.lost, compared.new) == (1, 2, 1)
    with pytest.raises(ValueError, match="different pictures"):
        compare_pictures([replace(found, sha256="other")], [reference])


def test_the_picture_with_the_most_lost_boxes_is_shown_once_for_all_boards(tmp_path: Path) -> None:
    one, two = tmp_path / "one.png", tmp_path / "two.png"
    report = read(
        tmp_path,
        {
            "fp32": [picture(one, ("dog", DOG)), picture(two, ("dog", DOG), ("man", MAN))],
            "int8": [picture(one, ("dog", DOG), ("cat", CAT)), picture(two, ("cat", CAT))],
        },
    )
    (loss,) = report.box_losses
    assert (loss.policy, loss.recommended_on) == ("int8", ["host"])
    assert (loss.pictures, loss.kept, loss.lost, loss.new) == (2, 1, 2, 2)
    assert loss.worst is not None
    assert (loss.worst.found.path, loss.worst.lost) == (str(two), 2)
    assert len(loss.jpeg) <= 36_000
    assert max(loss.size) <= 560
    page = html(report)
    assert "Of 2 pictures, two.png is the one with the most lost boxes: 0 kept, 2 lost, 1 new." in page
    assert "All pictures: 1 kept, 2 lost, 2 new." in page
    labels = re.findall(r'role="img" aria-label="([^"]*)"', page)
    assert labels == ["Boxes of fp32: 2. Lost: dog 50 %, man 50 %.", "Boxes of int8: 1. New: cat 50 %."]
    assert page.count("data:image/jpeg;base64,") == 1
    assert re.findall(r"<text [^>]*>([^<]*)</text>", page) == [
        "lost man: 50 %",
        "lost dog: 50 %",
        "new cat: 50 %",
    ]
    assert page.count('<g class="lost">') == 2


def test_a_picture_that_is_gone_or_another_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "one.png"
    evaluations = {"fp32": [picture(path, ("dog", DOG))], "int8": [picture(path)]}
    for change, said in ((path.unlink, "cannot be read"), (lambda: path.write_bytes(b"x"), "is not the")):
        change()
        page = html(read(tmp_path, evaluations))
        assert "No picture: " in page
        assert said in page
        assert "one.png" in page
        assert "data:image" not in page
        assert ">lost<" in page  # in the table


def test_without_a_difference_there_is_a_sentence_alone(tmp_path: Path) -> None:
    same = [picture(tmp_path / "one.png", ("dog", DOG))]
    page = html(read(tmp_path, {"fp32": same, "int8": same}))
    assert "In 1 picture no box is lost or new; 1 are kept." in page
    assert "data:image" not in page


def test_older_results_and_classifiers_have_no_boxes(tmp_path: Path) -> None:
    report = read(tmp_path, {"fp32": [], "int8": []})
    assert report.box_losses == []
    assert "Boxes under fp32" not in html(report)


def test_a_page_shows_a_bounded_number_of_pictures(tmp_path: Path) -> None:
    path = tmp_path / "one.png"
    evaluations = {"fp32": [picture(path, ("dog", DOG))], "int8": [picture(path)]}
    report = read(tmp_path, evaluations, models=MOST + 2)
    assert len(report.box_losses) == MOST
    assert sum(len(loss.jpeg) for loss in report.box_losses) <= MOST * 36_000


def loss(name: str) -> BoxLoss:
    reference, found = (
        PictureDetections(
            path=f"{name}.png", sha256="ab", found=[Detection(name=name, confidence=0.5, box=box)]
        )
        for box in (DOG, CAT)
    )
    (worst,) = compare_pictures([found], [reference])
    return BoxLoss(
        model=name,
        policy=name,
        runtime=name,
        recommended_on=[name],
        pictures=1,
        kept=0,
        lost=1,
        new=1,
        worst=worst,
        jpeg=b"j",
        size=(4, 3),
    )


@given(name=NAMES)
def test_names_of_classes_and_policies_are_no_markup(name: str) -> None:
    shown, plain = Page(box_figure(loss(name), 0)), Page(box_figure(loss(""), 0))
    assert [re.sub(r"\('(aria-label|x)'.*", "", tag) for tag in shown.tags] == [
        re.sub(r"\('(aria-label|x)'.*", "", tag) for tag in plain.tags
    ]
