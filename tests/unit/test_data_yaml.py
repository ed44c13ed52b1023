"""Ultralytics' data.yaml: splits, lists of pictures, names, and what is wrong with bad ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.accuracy.dataset import files_of, names_around, read_dataset, read_pictures, with_chosen_split
from harness.accuracy.labels import label_file
from harness.accuracy.names import class_names, read_names
from harness.config.data_set_path import split_of
from harness.config.sweep import Calibration, Model
from harness.errors import ConfigurationError
from harness.measure import fingerprint


@pytest.fixture
def coco8(tmp_path: Path) -> Path:
    """A data set of four pictures a split, as Ultralytics' examples have it; returns its data.yaml."""
    root = tmp_path / "coco8"
    for split in ("train", "val"):
        for kind in ("images", "labels"):
            (root / kind / split).mkdir(parents=True)
        for number in range(4):
            (root / "images" / split / f"{number}.jpg").write_text(f"{split} {number}")
            (root / "labels" / split / f"{number}.txt").write_text(f"{number % 2} .5 .5 .2 .2\n")
    return written(tmp_path, "path: coco8 # root\ntrain: images/train\nval: images/val\ntest: # optional\n")


def written(folder: Path, text: str) -> Path:
    file = folder / "data.yaml"
    file.write_text(text + "names:\n  0: person\n  1: hot dog\ndownload: |\n  import os\n")
    return file


def shown(paths: list[Path]) -> list[str]:
    return ["/".join(path.parts[-2:]) for path in paths]


VAL = [f"val/{number}.jpg" for number in range(4)]
TRAIN = [f"train/{number}.jpg" for number in range(4)]


def test_the_default_split_is_val(coco8: Path) -> None:
    data = read_dataset(coco8, classes=2)
    assert data.kind == "boxes"
    assert shown([picture.path for picture in data.pictures]) == VAL
    assert [picture.truth.classes.tolist() for picture in data.pictures if picture.truth] == [
        [0],
        [1],
        [0],
        [1],
    ]
    train = coco8.with_name("data.yaml:train")
    assert shown([picture.path for picture in read_dataset(train).pictures]) == TRAIN
    assert shown(read_pictures(train)) == TRAIN
    assert shown(read_pictures(coco8)) == VAL


def test_calibration_uses_the_split_train_if_it_exists(coco8: Path, tmp_path: Path) -> None:
    assert shown(read_pictures(coco8, split="train")) == TRAIN
    assert shown(read_pictures(coco8.with_name("data.yaml:val"), split="train")) == VAL
    (tmp_path / "coco8/images/train").rename(tmp_path / "elsewhere")
    assert shown(read_pictures(coco8, split="train")) == VAL


def test_a_sweep_calibrates_on_another_split_than_it_evaluates(coco8: Path) -> None:
    model = Model(name="net", cfg=coco8, weights=coco8, dataset=coco8.with_name("data.yaml:val"))
    assert model.calibration_dataset == coco8
    named = Calibration(dataset=coco8.with_name("data.yaml:val"))
    assert Model(name="net", cfg=coco8, weights=coco8, calibration=named).calibration_dataset == named.dataset


def test_it_is_found_in_a_folder(coco8: Path, tmp_path: Path) -> None:
    assert shown([picture.path for picture in read_dataset(tmp_path).pictures]) == VAL
    assert shown(read_pictures(tmp_path, split="train")) == TRAIN


def test_roboflow_paths_to_the_parent_mean_folders_beside_the_file(tmp_path: Path) -> None:
    for kind in ("images", "labels"):
        (tmp_path / "valid" / kind).mkdir(parents=True)
    (tmp_path / "valid/images/a.jpg").touch()
    (tmp_path / "valid/labels/a.txt").touch()
    file = written(tmp_path, "train: ../train/images\nval: ../valid/images\nnc: 2\n")
    assert [picture.labelled for picture in read_dataset(file).pictures] == [True]


def test_lists_of_pictures_and_of_folders(coco8: Path, tmp_path: Path) -> None:
    root = tmp_path / "coco8"
    (root / "val.txt").write_text(f"./images/val/2.jpg\r\n\nimages/val/0.jpg\n{root}/images/val/0.jpg\n")
    file = written(tmp_path, "path: coco8\nval: [val.txt, images/train]\n")
    assert shown(read_pictures(file)) == [*TRAIN, "val/0.jpg", "val/2.jpg"]
    (root / "val.txt").write_text("images/val/0.jpg\nimages/val/9.jpg\n")
    with pytest.raises(ConfigurationError, match=r"val\.txt:2: the picture images/val/9\.jpg does not exist"):
        read_dataset(file)


def test_labels_replaces_the_last_folder_images_of_a_path() -> None:
    assert label_file(Path("/images/a/images/val/b.c.jpg")) == Path("/images/a/labels/val/b.c.txt")
    assert label_file(Path("/a/images")) == Path("/a/images.txt")
    assert label_file(Path("/a/b.jpg")) == Path("/a/b.txt")


def test_pictures_without_labels_are_background(coco8: Path, tmp_path: Path) -> None:
    (tmp_path / "coco8/labels/val/1.txt").unlink()
    assert read_dataset(coco8).unlabelled == 1


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("val: images/val\n", ":1: {folder}/images/val: the pictures of the split val are missing"),
        ("path: coco8\ntrain: images/train\n", ": has no split val; it has train"),
        ("path: coco8\n", ": has no split val; it has no splits"),
        ("path: [a]\nval: b\n", ":1: expected a folder, found a list"),
        ("path: coco8\nval: 3\n", ":2: expected a folder or a .txt file of pictures, found an integer (3)"),
        ("path: coco8\nval: labels/val/0.md\n", ":2: expected a folder or a .txt file of pictures"),
        ("path: coco8\nval: labels\n", ":2: the split val has no pictures"),
        ("path: coco8\nval: images/val\nnc: 3\n", ":3: nc is 3, but names has 2"),
    ],
)
def test_invalid_content_is_an_error_with_its_line(coco8: Path, tmp_path: Path, text: str, what: str) -> None:
    (tmp_path / "coco8/labels/val/0.md").touch()
    file = written(tmp_path, text)
    with pytest.raises(ConfigurationError) as error:
        read_dataset(file)
    assert error.value.message.startswith(str(file))
    assert what.format(folder=tmp_path) in error.value.message


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("names: [a, 'b c', 3]\n", ["a", "b c", "3"]),
        ("names: {1: b, 0: a}\n", ["a", "b"]),
        ("nc: 4\n", []),
        ("names:\n", []),
        ("names: {1: b, 2: a}\n", "d.yaml:1: expected the classes 0 to 1, found 2"),
        ("names: [[a]]\n", "d.yaml:1: expected the name of a class, found a list"),
        ("names: a\n", "d.yaml:1: expected a list of names"),
        ("[]", "d.yaml:1: expected the keys path, train, val and names"),
    ],
)
def test_names(tmp_path: Path, names: str, expected: list[str] | str) -> None:
    file = tmp_path / "d.yaml"
    file.write_text(names)
    if isinstance(expected, list):
        assert read_names(file) == expected
        return
    with pytest.raises(ConfigurationError) as error:
        read_names(file)
    assert expected in error.value.message


def test_more_classes_than_the_network_has_are_an_error(coco8: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"data\.yaml: 2 classes, but the network has 1"):
        read_dataset(coco8, classes=1)


def test_the_split_may_be_given_beside_the_path(coco8: Path, tmp_path: Path) -> None:
    assert with_chosen_split(coco8, "train") == coco8.with_name("data.yaml:train")
    assert with_chosen_split(tmp_path, "train") == coco8.with_name("data.yaml:train")
    assert split_of(Path("a/data.yml:test")) == (Path("a/data.yml"), "test")
    assert split_of(Path("a/data.yaml:other")) == (Path("a/data.yaml:other"), "")
    with pytest.raises(ConfigurationError, match="conflicts with --split val"):
        with_chosen_split(coco8.with_name("data.yaml:train"), "val")
    with pytest.raises(ConfigurationError, match=r"only a data\.yaml has splits"):
        with_chosen_split(tmp_path / "coco8", "val")


def test_the_hash_depends_only_on_pictures_and_labels_of_the_split(coco8: Path, tmp_path: Path) -> None:
    assert len(list(files_of(coco8))) == 4 + 4 + 1
    before = [fingerprint.of_dataset(coco8, split) for split in ("val", "train")]
    label = tmp_path / "coco8/labels/val/1.txt"
    os.utime(label, ns=(0, 0))
    label.write_text("1 .5 .5 .2 .3\n")
    after = [fingerprint.of_dataset(coco8, split) for split in ("val", "train")]
    assert (before[0] == after[0], before[1] == after[1]) == (False, True)


# --- names for a network


def test_the_only_matching_file_beside_the_cfg_gives_the_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cfg = tmp_path / "net.cfg"
    assert class_names(None, cfg, 2) == ["0", "1"]
    (tmp_path / "data.yaml").write_text("names: [cat, dog]")
    (tmp_path / "broken.names").write_bytes(b"\xff")
    assert class_names(None, cfg, 2) == ["cat", "dog"]
    assert class_names(None, cfg, 3) == ["0", "1", "2"]
    (tmp_path / "a.names").write_text("cat\ndog\n")
    assert class_names(None, cfg, 2) == ["cat", "dog"]
    (tmp_path / "b.names").write_text("cow\r\nhen\r\n")
    assert class_names(None, cfg, 2) == ["0", "1"]
    assert "showing class numbers" in capsys.readouterr().err
    assert class_names(None, cfg, 2, ("sow", "hog")) == ["sow", "hog"]
    assert class_names(None, cfg, 2, ("sow", "hog", "pig")) == ["0", "1"]
    (tmp_path / "net.names").write_text("a\nb")
    assert class_names(None, cfg, 2, ("sow", "hog")) == ["a", "b"]
    assert class_names(tmp_path / "b.names", cfg, 2) == ["cow", "hen"]
    with pytest.raises(ConfigurationError, match="has 2 names, but the network has 3 classes"):
        class_names(tmp_path / "data.yaml", cfg, 3)


def test_pictures_of_one_data_set_have_the_names_of_its_file(tmp_path: Path) -> None:
    for folder, names in (("flat", "[cat, dog]"), ("split", "[sow, hog]"), ("broken", "{1: x}")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "data.yaml").write_text(f"names: {names}")
    flat = [tmp_path / "flat/images/val/1.png", tmp_path / "flat/images/2.png"]
    split = [tmp_path / "split/valid/images/1.png"]
    assert names_around(flat) == ["cat", "dog"]
    assert names_around(split) == ["sow", "hog"]
    assert names_around([*flat, *split]) == []
    assert names_around([tmp_path / "broken/images/1.png"]) == []
    assert names_around([tmp_path / "split/more/images/1.png"]) == []
    assert names_around([tmp_path / "flat/1.png"]) == []
