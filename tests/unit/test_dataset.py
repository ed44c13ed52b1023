"""Datasets in their three forms, and what is wrong with bad ones."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from harness.accuracy.dataset import read_dataset, read_pictures
from harness.accuracy.labels import read_labels
from harness.accuracy.names import read_names
from harness.accuracy.truth import Dataset, warning_of_unlabelled
from harness.errors import ConfigurationError


def yolo_folder(folder: Path, labels: dict[str, str | None]) -> Path:
    for name, text in labels.items():
        (folder / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "images" / name).touch()
        label = (folder / "labels" / name).with_suffix(".txt")
        label.parent.mkdir(parents=True, exist_ok=True)
        if text is not None:
            label.write_text(text)
    return folder


def coco_json(folder: Path, **changes: Any) -> Path:
    data: dict[str, Any] = {
        "images": [
            {"id": 7, "file_name": "b.jpg", "width": 200, "height": 100},
            {"id": 3, "file_name": "a.jpg", "width": 10, "height": 10},
        ],
        "categories": [{"id": 90, "name": "z"}, {"id": 2, "name": "y"}],
        "annotations": [
            {"image_id": 7, "category_id": 90, "bbox": [20, 10, 40, 20], "area": 300, "iscrowd": 0},
            {"image_id": 7, "category_id": 2, "bbox": [0, 0, 200, 100], "iscrowd": 1},
        ],
    }
    path = folder / "instances_val.json"
    path.write_text(json.dumps(data | changes))
    for name in ("a.jpg", "b.jpg"):
        (folder / name).touch()
    return path


def test_yolo_labels_belong_to_pictures_by_stem(tmp_path: Path) -> None:
    data = read_dataset(
        yolo_folder(tmp_path, {"b.jpg": "1 .5 .5 .2 .4\n", "a.png": "", "sub/c.JPG": "0 0 0 1 1"})
    )
    assert data.kind == "boxes"
    assert [picture.path.name for picture in data.pictures] == ["a.png", "b.jpg", "c.JPG"]
    truths = [picture.truth for picture in data.pictures]
    assert all(truth is not None for truth in truths)
    assert [truth.classes.tolist() for truth in truths if truth] == [[], [1], [0]]
    assert truths[1] is not None
    assert truths[1].boxes.tolist() == [[0.5, 0.5, 0.2, 0.4]]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("0 .5 .5 .2", "has 5 numbers"),
        ("0 .5 .5 .2 .2 .9", "has 5 numbers"),
        ("0 .1 .1 .9 .1 .9 .9", "Outlines and key points are not supported"),
        ("1_0 .5 .5 .2 .2", "not a class and four numbers"),
        ("\u0660 .5 .5 .2 .2", "not a class and four numbers"),
        ("9" * 5000 + " .5 .5 .2 .2", "not a class and four numbers"),
        ("9" * 400 + " .5 .5 .2 .2", "unknown class of that size; the network has 0 to 1"),
        ("0 1e999 .5 .2 .2", "infinite or NaN"),
        ("0 .5 .5 1e308 .2", "at most 1"),
        ("cat .5 .5 .2 .2", "not a class and four numbers"),
        ("1.5 .5 .5 .2 .2", "not a class and four numbers"),
        ("0 .5 .5 .2 x", "not a class and four numbers"),
        ("-1 .5 .5 .2 .2", "unknown class -1"),
        ("2 .5 .5 .2 .2", "unknown class 2; the network has 0 to 1"),
        ("0 nan .5 .2 .2", "infinite or NaN"),
        ("0 .5 inf .2 .2", "infinite or NaN"),
        ("0 1.5 .5 .2 .2", "outside the picture"),
        ("0 .5 .5 0 .2", "must be positive"),
        ("0 .5 .5 -.2 .2", "must be positive"),
        ("0 .5 .5 .2 1.5", "at most 1"),
        ("0 320 240 50 50", "outside the picture"),
    ],
)
def test_a_malformed_label_is_an_error_with_file_and_line(tmp_path: Path, line: str, what: str) -> None:
    folder = yolo_folder(tmp_path, {"a.jpg": f"0 .5 .5 .2 .2\n\n{line}\n"})
    with pytest.raises(ConfigurationError) as error:
        read_dataset(folder, classes=2)
    assert f"{folder / 'labels' / 'a.txt'}:3: " in str(error.value)
    assert what in str(error.value)


def test_a_picture_without_a_label_file_is_background_and_counted(tmp_path: Path) -> None:
    folder = yolo_folder(tmp_path, {"a.jpg": "", "b.jpg": None, "c.jpg": "0 .5 .5 .2 .2"})
    data = read_dataset(folder)
    assert [picture.labelled for picture in data.pictures] == [True, False, True]
    assert [len(picture.truth.classes) for picture in data.pictures if picture.truth] == [0, 0, 1]
    assert (data.unlabelled, data.first(1).unlabelled) == (1, 0)
    assert warning_of_unlabelled(data.path, 1, 3) == ""
    assert "2 of 3 pictures have no label file" in warning_of_unlabelled(data.path, 2, 3)


def test_an_error_shows_the_expected_label_file_if_all_are_missing(tmp_path: Path) -> None:
    folder = yolo_folder(tmp_path, {"a.jpg": None, "b.jpg": None})
    with pytest.raises(ConfigurationError, match=r"no picture has a label file; .*labels/a\.txt"):
        read_dataset(folder)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"0 .5 .5 .2 .2\n\x80"])
def test_a_binary_label_file_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"a\.txt:[12]: not UTF-8 text"):
        read_labels(tmp_path / "a.txt")


@pytest.mark.parametrize("path", ["labels/a.txt", "images/a.jpg", "labels", "."])
def test_a_pipe_anywhere_in_a_dataset_is_refused(tmp_path: Path, path: str) -> None:
    folder = tmp_path / "data"
    if path != ".":
        yolo_folder(folder, {"a.jpg": "", "b.jpg": ""})
    place = folder / path
    if path == "labels":
        place = folder / "labels" / "b.txt"
    place.unlink(missing_ok=True)
    os.mkfifo(place)
    with pytest.raises(ConfigurationError, match="is a named pipe, not a"):
        read_dataset(folder)


def test_a_dangling_link_is_an_error(tmp_path: Path) -> None:
    folder = yolo_folder(tmp_path, {"a.jpg": "", "b.jpg": ""})
    (folder / "images" / "a.jpg").unlink()
    (folder / "images" / "a.jpg").symlink_to("gone.jpg")
    with pytest.raises(ConfigurationError, match=r"a\.jpg: cannot be read: No such file"):
        read_dataset(folder)


def test_coco_classes_are_numbered_in_the_order_of_their_ids(tmp_path: Path) -> None:
    data = read_dataset(coco_json(tmp_path), classes=2)
    assert [picture.path.name for picture in data.pictures] == ["a.jpg", "b.jpg"]  # by image id
    assert data.names == ("y", "z")
    truth = data.pictures[1].truth
    assert truth is not None
    assert truth.classes.tolist() == [1, 0]
    assert truth.boxes[0].tolist() == pytest.approx([0.2, 0.2, 0.2, 0.2])
    assert truth.crowd.tolist() == [False, True]
    assert truth.areas is not None
    assert truth.areas.tolist() == [300, 20000]


def test_coco_json_is_found_in_a_folder_and_pictures_beside_the_annotations(tmp_path: Path) -> None:
    annotations = tmp_path / "annotations"
    annotations.mkdir()
    source = coco_json(tmp_path)
    source.rename(annotations / "instances_val.json")
    (tmp_path / "val").mkdir()
    for name in ("a.jpg", "b.jpg"):
        (tmp_path / name).rename(tmp_path / "val" / name)
    assert [p.path.parent.name for p in read_dataset(tmp_path).pictures] == ["val", "val"]


BOX = {"image_id": 7, "category_id": 2, "bbox": [0, 0, 1, 1]}
IMAGE = {"id": 7, "file_name": "b.jpg", "width": 9, "height": 9}


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"images": None}, ": not COCO's detection format: the list images is missing"),
        ({"categories": {"id": 1}}, ": not COCO's detection format: the list categories is missing"),
        ({"categories": [{"name": "z"}]}, ": categories[0] has no id"),
        ({"categories": [3]}, ": categories[0]: expected an object, found 3"),
        (
            {"categories": [{"id": 1}, {"id": 2}, {"id": 1}]},
            ": categories[2].id: 1 is already the id of categories[0]",
        ),
        ({"images": [IMAGE, IMAGE]}, ": images[1].id: 7 is already the id of images[0]"),
        ({"images": [IMAGE | {"id": "x"}]}, ': images[0].id: expected a whole number of 64 bits, found "x"'),
        (
            {"images": [IMAGE | {"id": 10**400}]},
            "images[0].id: expected a whole number of 64 bits, found a number of",
        ),
        ({"images": [IMAGE | {"id": True}]}, "images[0].id: expected a whole number of 64 bits, found true"),
        (
            {"images": [IMAGE | {"width": 0}], "annotations": []},
            ": images[0].width: expected a positive size, found 0",
        ),
        (
            {"images": [IMAGE | {"height": None}], "annotations": []},
            ": images[0].height: expected a number, found null",
        ),
        (
            {"images": [IMAGE | {"file_name": "no.jpg"}], "annotations": []},
            ": the picture no.jpg was not found beside it",
        ),
        (
            {"images": [IMAGE | {"file_name": 3}], "annotations": []},
            ": images[0].file_name: expected the name of a file",
        ),
        (
            {"images": [IMAGE | {"file_name": "\0"}], "annotations": []},
            ": images[0].file_name: expected the name of",
        ),
        ({"images": [], "annotations": []}, ": lists no images"),
        ({"annotations": [BOX | {"image_id": 99}]}, ": annotations[0].image_id: unknown image 99"),
        ({"annotations": [BOX | {"category_id": 5}]}, ": annotations[0].category_id: unknown category 5"),
        ({"annotations": [{"image_id": 7, "caption": "a cat"}]}, ": annotations[0] has no category_id"),
        (
            {"annotations": [BOX | {"bbox": [0, 0, 1]}]},
            "annotations[0].bbox: expected [left, top, width, height], found a list of 3",
        ),
        (
            {"annotations": [BOX | {"bbox": [0, 0, 1, "x"]}]},
            ': annotations[0].bbox: expected a number, found "x"',
        ),
        (
            {"annotations": [BOX, BOX | {"bbox": [5, 5, -3, 2]}]},
            ": annotations[1].bbox: the width and height -3 x 2 are negative",
        ),
        (
            {"annotations": [BOX | {"bbox": [0, 0, 1, 10**400]}]},
            ": annotations[0].bbox: expected a number of at most 1e+09, found a number",
        ),
        (
            {"annotations": [BOX | {"bbox": [0, 0, 1, float("inf")]}]},
            ": annotations[0].bbox: expected a number of at most 1e+09, found an infinite number or NaN",
        ),
        (
            {"annotations": [BOX | {"bbox": [0, float("nan"), 1, 1]}]},
            ": annotations[0].bbox: expected a number of at most",
        ),
        ({"annotations": [BOX | {"area": None}]}, ": annotations[0].area: expected a number, found null"),
        (
            {"annotations": [BOX | {"area": -1}]},
            ": annotations[0].area: expected an area of 0 or more, found -1",
        ),
        ({"annotations": [BOX | {"area": 1e300}]}, ": annotations[0].area: expected a number of at most"),
        ({"annotations": [BOX | {"iscrowd": "no"}]}, ': annotations[0].iscrowd: expected 0 or 1, found "no"'),
        ({"annotations": [BOX | {"iscrowd": None}]}, ": annotations[0].iscrowd: expected 0 or 1, found null"),
    ],
)
def test_bad_coco_json_is_an_error_with_its_place(tmp_path: Path, changes: dict[str, Any], what: str) -> None:
    path = coco_json(tmp_path, **changes)
    with pytest.raises(ConfigurationError) as error:
        read_dataset(path)
    assert f"{path}: " in error.value.message
    assert what in error.value.message
    if re.match(r": \w+\[", what):
        assert error.value.hint


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[" * 100_000, "lists and objects are nested too deeply"),
        ('{"images": [{"id": ' + "1" * 5000 + "}]}", "a number has thousands of digits"),
        ("[]", "the list categories is missing"),
        ("1e999", "the list categories is missing"),
        ("", ":1: not JSON"),
        ('{"a": 1}\n{', ":2: not JSON: Extra data"),
        ('{"images": "\\ud800"}', "the list categories is missing"),
    ],
)
def test_other_json_is_an_error(tmp_path: Path, text: str, what: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as error:
        read_dataset(path)
    assert error.value.message.startswith(str(path))
    assert what in error.value.message


def test_numbers_in_coco_json_may_be_written_in_several_ways(tmp_path: Path) -> None:
    annotations = [BOX | {"image_id": "7", "iscrowd": True, "area": 1e9, "bbox": [0, 0, 0, 0.5]}]
    data = read_dataset(coco_json(tmp_path, annotations=annotations))
    truth = data.pictures[1].truth
    assert truth is not None
    assert truth.crowd.tolist() == [True]


@pytest.mark.parametrize(
    ("names", "suggested"),
    [
        (
            ["captions_train2017", "instances_train2017", "instances_val2017", "person_keypoints_val2017"],
            "instances_val2017",
        ),
        (["captions_val2017", "instances_train2017"], "instances_train2017"),
        (["a_train", "b_val"], "b_val"),
    ],
)
def test_an_error_suggests_the_json_file_with_boxes(tmp_path: Path, names: list[str], suggested: str) -> None:
    (tmp_path / "annotations").mkdir()
    for name in names:
        (tmp_path / "annotations" / f"{name}.json").touch()
    with pytest.raises(ConfigurationError, match=f"holds {len(names)} JSON files") as error:
        read_dataset(tmp_path)
    assert error.value.hint == f"Name one, as in --dataset {tmp_path / 'annotations' / suggested}.json"


def test_more_categories_than_the_network_has_classes_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="2 categories, but the network has 1"):
        read_dataset(coco_json(tmp_path), classes=1)


def test_broken_json_is_an_error_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{\n"images": [}')
    with pytest.raises(ConfigurationError, match=r"x\.json:2: not JSON"):
        read_dataset(path)


def test_wordnet_ids_are_looked_up_in_the_list(tmp_path: Path) -> None:
    (tmp_path / "n00000002_b.JPEG").touch()
    (tmp_path / "n00000001_a.JPEG").touch()
    (tmp_path / "labels.list").write_text("n00000002 bee\nn00000009\nn00000001\n")
    data = read_dataset(tmp_path, classes=3)
    assert data.kind == "classes"
    assert [picture.label for picture in data.pictures] == [2, 0]


def test_folders_may_carry_the_wordnet_id(tmp_path: Path) -> None:
    (tmp_path / "d" / "n00000001").mkdir(parents=True)
    (tmp_path / "d" / "n00000001" / "x.jpg").touch()
    (tmp_path / "imagenet.labels.list").write_text("n00000001\n")  # one folder up
    assert [picture.label for picture in read_dataset(tmp_path / "d").pictures] == [0]


def test_an_unknown_wordnet_id_is_an_error_that_names_the_list(tmp_path: Path) -> None:
    (tmp_path / "n00000001_a.jpg").touch()
    chosen = tmp_path / "mine.txt"
    chosen.write_text("n00000002\n")
    with pytest.raises(ConfigurationError, match=r"n00000001 is not in .*mine\.txt"):
        read_dataset(tmp_path, labels=chosen)


def test_categories_may_have_no_names(tmp_path: Path) -> None:
    path = coco_json(tmp_path, categories=[{"id": 90, "name": "z"}, {"id": 2}])
    assert read_dataset(path).names == ()


def test_too_long_a_list_of_ids_is_an_error_for_unknown_classes_only(tmp_path: Path) -> None:
    (tmp_path / "n00000001_a.jpg").touch()
    (tmp_path / "labels.list").write_text("n00000002\nn00000001\n")
    with pytest.raises(ConfigurationError, match=r"labels\.list:2: unknown class 1"):
        read_dataset(tmp_path, classes=1)


def test_without_a_list_the_error_says_how_to_give_one(tmp_path: Path) -> None:
    (tmp_path / "n00000001_a.jpg").touch()
    with pytest.raises(ConfigurationError, match="--labels"):
        read_dataset(tmp_path)


def test_other_pictures_have_no_truth(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").touch()
    data = read_dataset(tmp_path)
    assert (data.kind, len(data.pictures)) == ("pictures", 1)


def test_pictures_are_found_without_their_labels(tmp_path: Path) -> None:
    folder = yolo_folder(tmp_path, {"b.jpg": None, "a.jpg": "nonsense"})
    assert [path.name for path in read_pictures(folder)] == ["a.jpg", "b.jpg"]


def test_a_picture_name_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "caf\udce9.jpg").touch()
    with pytest.raises(ConfigurationError, match="the name is not UTF-8"):
        read_dataset(tmp_path)


@pytest.mark.parametrize("make", ["nothing", "empty"])
def test_no_dataset_is_an_error(tmp_path: Path, make: str) -> None:
    path = tmp_path / make
    if make == "empty":
        path.mkdir()
    with pytest.raises(ConfigurationError, match=r"data set does not exist|has no pictures"):
        read_dataset(path)
    with pytest.raises(ConfigurationError, match=r"data set does not exist|has no pictures"):
        read_pictures(path)


def test_a_limit_keeps_the_first_pictures(tmp_path: Path) -> None:
    data = read_dataset(yolo_folder(tmp_path, {"a.jpg": "", "b.jpg": "", "c.jpg": ""}))
    assert [picture.path.name for picture in data.first(2).pictures] == ["a.jpg", "b.jpg"]
    assert data.first(None) == data
    with pytest.raises(ConfigurationError, match="limit of 0"):
        data.first(0)


def test_names_are_lines(tmp_path: Path) -> None:
    (tmp_path / "x.names").write_text("hot dog\ncat\n\n")
    assert read_names(tmp_path / "x.names") == ["hot dog", "cat"]
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_names(tmp_path / "y.names")


# --- a folder per class


def class_folders(tmp_path: Path, *names: str) -> Path:
    for name in names:
        (tmp_path / "data" / name / "deeper").mkdir(parents=True)
        (tmp_path / "data" / name / "a.jpg").touch()
        (tmp_path / "data" / name / "deeper" / "b.jpg").touch()
    return tmp_path / "data"


def labels_of(dataset: Dataset) -> dict[str, set[int | None]]:
    found: dict[str, set[int | None]] = {}
    for picture in dataset.pictures:
        folder = picture.path.relative_to(dataset.path).parts[0]
        found.setdefault(folder, set()).add(picture.label)
    return found


def test_folders_are_classes_in_alphabetical_order(tmp_path: Path) -> None:
    data = class_folders(tmp_path, "dog", "cat", "hot dog")
    for classes in (3, None):
        dataset = read_dataset(data, classes=classes)
        assert dataset.kind == "classes"
        assert labels_of(dataset) == {"cat": {0}, "dog": {1}, "hot dog": {2}}
        assert dataset.names == ("cat", "dog", "hot dog")
    assert read_dataset(data, classes=80).kind == "pictures"  # of a detector, for example
    (data / "e.jpg").touch()
    assert read_dataset(data, classes=3).kind == "pictures"


def test_a_list_gives_the_folders_their_classes(tmp_path: Path) -> None:
    data = class_folders(tmp_path, "dog", "hot dog")
    names = tmp_path / "x.names"
    names.write_text("hot dog\ncat\ndog\n")
    assert labels_of(read_dataset(data, classes=3, labels=names)) == {"dog": {2}, "hot dog": {0}}
    with pytest.raises(ConfigurationError, match="unknown class 2; the network has 0 to 1"):
        read_dataset(data, classes=2, labels=names)


def test_folders_named_by_wordnet_id_need_no_list_if_all_classes_are_there(tmp_path: Path) -> None:
    for name in ("n00000007", "n00000003"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.jpg").touch()
    for classes in (2, None):  # without an engine the number is unknown
        labels = labels_of(read_dataset(tmp_path, classes=classes))
        assert labels == {"n00000003": {0}, "n00000007": {1}}
    with pytest.raises(ConfigurationError, match="the order of the outputs is unknown"):
        read_dataset(tmp_path, classes=1000)


def test_frameworks_other_than_darknet_sort_the_ids(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "n00000007_a.jpg").touch()
    names = tmp_path / "imagenet.labels.list"
    names.write_text("n00000007\nn00000003\nn00000001\n")  # the network has the first two
    data = tmp_path / "data"
    assert [picture.label for picture in read_dataset(data, classes=2).pictures] == [0]
    assert [picture.label for picture in read_dataset(data, classes=2, sort_ids=True).pictures] == [1]
    chosen = read_dataset(data, classes=2, labels=names, sort_ids=True)
    assert [picture.label for picture in chosen.pictures] == [0]  # a list that the user names is right
