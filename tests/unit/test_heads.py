"""The outputs of a cfg."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.accuracy.heads import read_outputs
from harness.errors import ConfigurationError

CONVOLUTION = "[convolutional]\nfilters=21\n"


def cfg(folder: Path, text: str) -> Path:
    path = folder / "net.cfg"
    path.write_text("[net]\nwidth=32\nheight=32\n" + text)
    return path


def test_a_yolo_layer_takes_the_anchors_its_mask_names(tmp_path: Path) -> None:
    text = (
        "[yolo]\nmask = 1,2\nanchors = 1,2, 3,4, 5, 6\nclasses=2\nnum=3\nscale_x_y=1.05\nnms_kind=greedynms\n"
    )
    (head,) = read_outputs(cfg(tmp_path, CONVOLUTION + text)).heads
    assert head.anchors.tolist() == [[3, 4], [5, 6]]
    assert (head.layer, head.source, head.classes, head.channels) == (1, 0, 2, 14)
    assert (head.scale_x_y, head.nms_kind, head.beta_nms, head.new_coords) == (1.05, "greedynms", 0.6, False)


def test_without_a_mask_all_anchors_are_taken(tmp_path: Path) -> None:
    (head,) = read_outputs(cfg(tmp_path, CONVOLUTION + "[yolo]\nanchors=1,2,3,4\nclasses=1\nnum=2\n")).heads
    assert head.anchors.tolist() == [[1, 2], [3, 4]]


def test_numbers_are_read_as_by_atof(tmp_path: Path) -> None:
    text = "[yolo]\nmask=0#1\nanchors = 1.5x,2\nclasses=3#80\nnum=1\nscale_x_y=1.2.3\n"
    (head,) = read_outputs(cfg(tmp_path, CONVOLUTION + text)).heads
    assert head.anchors.tolist() == [[1.5, 2]]
    assert head.classes == 3
    assert head.scale_x_y == 1.2


def test_comments_and_training_keys_do_not_matter(tmp_path: Path) -> None:
    text = "# [yolo]\n; more\n[yolo]\n#mask=9\nanchors=1,2\nnum=1\nclasses=1\njitter=.3\n"
    assert len(read_outputs(cfg(tmp_path, CONVOLUTION + text)).heads) == 1


def test_a_region_layer_has_anchors_in_cells(tmp_path: Path) -> None:
    text = "[region]\nanchors=0.5,0.25\nnum=1\nclasses=16\nsoftmax=1\n"
    (head,) = read_outputs(cfg(tmp_path, CONVOLUTION + text)).heads
    assert (head.kind, head.softmax, head.anchors.tolist()) == ("region", True, [[0.5, 0.25]])


def test_a_net_without_heads_is_a_classifier(tmp_path: Path) -> None:
    outputs = read_outputs(cfg(tmp_path, CONVOLUTION + "[softmax]\n"))
    assert not outputs.heads
    assert not outputs.letter_box


def test_letter_box_is_read_from_net(tmp_path: Path) -> None:
    assert read_outputs(cfg(tmp_path, "letter_box=1\n" + CONVOLUTION)).letter_box


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("[yolo]\nanchors=1,2\nnum=1\nmask=1\nclasses=2\n", 9, "mask must name anchors from 0 to 0"),
        ("[yolo]\nanchors=1,2,3\nnum=2\nclasses=2\n", 7, "needs 4 numbers in anchors, found 3"),
        ("[yolo]\nanchors=1,2\nnum=1\nclasses=0\n", 8, "must be positive"),
        ("[region]\nanchors=1,2\nnum=1\nclasses=2\ntree=9k.tree\n", 10, "class trees"),
        ("[region]\nanchors=1,2\nnum=1\nclasses=2\ncoords=5\n", 10, "only coords=4"),
    ],
)
def test_invalid_heads_are_errors_with_their_line(tmp_path: Path, text: str, line: int, what: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        read_outputs(cfg(tmp_path, CONVOLUTION + text))
    message = str(error.value)
    assert what in message
    assert f"net.cfg:{line}: " in message


def test_heads_must_agree_on_the_classes(tmp_path: Path) -> None:
    text = "".join(f"[yolo]\nanchors=1,2\nnum=1\nclasses={count}\n" for count in (2, 3))
    with pytest.raises(ConfigurationError, match="different numbers of classes"):
        read_outputs(cfg(tmp_path, CONVOLUTION + text))
