"""Datasets in their three forms, and what is wrong with bad ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.accuracy.dataset import read_dataset, read_labels, read_names, read_pictures
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
        ("cat .5 .5 .2 .2", "not a class and four numbers"),
        ("1.5 .5 .5 .2 .2", "not a class and four numbers"),
        ("0 .5 .5 .2 x", "not a class and four numbers"),
        ("-1 .5 .5 .2 .2", "there is no class -1"),
        ("2 .5 .5 .2 .2", "there is no class 2; the network knows 0 to 1"),
        ("0 nan .5 .2 .2", "not finite"),
        ("0 .5 inf .2 .2", "not finite"),
        ("0 1.5 .5 .2 .2", "outside the picture"),
        ("0 .5 .5 0 .2", "must be above 0"),
        ("0 .5 .5 -.2 .2", "must be above 0"),
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


def test_a_missing_label_file_is_an_error_with_its_name(tmp_path: Path) -> None:
    folder = yolo_folder(tmp_path, {"a.jpg": "", "b.jpg": None})
    with pytest.raises(ConfigurationError, match=r"b\.txt: the label file is missing"):
        read_dataset(folder)


def test_a_binary_label_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match=r"a\.txt: cannot be read as text"):
        read_labels(tmp_path / "a.txt")


def test_coco_classes_are_numbered_in_the_order_of_their_ids(tmp_path: Path) -> None:
    data = read_dataset(coco_json(tmp_path), classes=2)
    assert [picture.path.name for picture in data.pictures] == ["a.jpg", "b.jpg"]  # by image id
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


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"images": None}, "not COCO's detection format"),
        ({"categories": [{"name": "z"}]}, "not COCO's detection format"),
        ({"annotations": [{"image_id": 99, "category_id": 2, "bbox": [0, 0, 1, 1]}]}, "annotation 0 names"),
        (
            {"annotations": [{"image_id": 7, "category_id": 2, "bbox": [0, 0, 1]}]},
            "not COCO's detection format",
        ),
        (
            {"annotations": [{"image_id": 7, "category_id": 2, "bbox": [0, 0, 1, "x"]}]},
            "not COCO's detection",
        ),
        ({"images": [{"id": 1, "file_name": "a.jpg", "width": 0, "height": 4}], "annotations": []}, "size 0"),
        (
            {"images": [{"id": 1, "file_name": "no.jpg", "width": 1, "height": 4}], "annotations": []},
            "no.jpg",
        ),
        ({"images": [], "annotations": []}, "lists no images"),
    ],
)
def test_bad_coco_json_is_an_error_with_its_name(tmp_path: Path, changes: dict[str, Any], what: str) -> None:
    path = coco_json(tmp_path, **changes)
    with pytest.raises(ConfigurationError) as error:
        read_dataset(path)
    assert str(path) in str(error.value)
    assert what in str(error.value)


def test_more_categories_than_the_network_has_classes_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="2 categories, the network knows 1"):
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


def test_a_list_longer_than_the_network_is_an_error_where_it_matters(tmp_path: Path) -> None:
    (tmp_path / "n00000001_a.jpg").touch()
    (tmp_path / "labels.list").write_text("n00000002\nn00000001\n")
    with pytest.raises(ConfigurationError, match=r"labels\.list:2: there is no class 1"):
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


def test_a_picture_whose_name_is_in_another_encoding_is_refused(tmp_path: Path) -> None:
    (tmp_path / "caf\udce9.jpg").touch()
    with pytest.raises(ConfigurationError, match="its name is not UTF-8"):
        read_dataset(tmp_path)


@pytest.mark.parametrize("make", ["nothing", "empty"])
def test_no_dataset_is_an_error(tmp_path: Path, make: str) -> None:
    path = tmp_path / make
    if make == "empty":
        path.mkdir()
    with pytest.raises(ConfigurationError, match=r"no such dataset|holds no pictures"):
        read_dataset(path)
    with pytest.raises(ConfigurationError, match=r"no such dataset|holds no pictures"):
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
