"""The ends of well-known networks, as their exporters write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx_models import check, imported, kinds, model_of, node, random_input, run_imported

RANDOM = np.random.default_rng(4)
Array = npt.NDArray[Any]


def floats(*shape: int) -> Array:
    return RANDOM.normal(size=shape).astype(np.float32)


def f32(value: float) -> Array:
    return np.array(value, np.float32)


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


def test_yolov5_decodes_in_the_graph(tmp_path: Path) -> None:
    """Tensors with five axes: anchors, rows, columns, values of a box."""
    scales = []
    for name in "ab":
        scales += [
            node("Reshape", f"c_{name} five", f"r_{name}"),
            node("Transpose", f"r_{name}", f"t_{name}", perm=[0, 1, 3, 4, 2]),
            node("Sigmoid", f"t_{name}", f"s_{name}"),
            node("Split", f"s_{name} parts", f"xy_{name} wh_{name} rest_{name}", axis=4),
            node("Mul", f"xy_{name} two", f"d_{name}"),
            node("Add", f"d_{name} grid", f"g_{name}"),
            node("Mul", f"g_{name} stride", f"p_{name}"),
            node("Mul", f"wh_{name} two", f"e_{name}"),
            node("Pow", f"e_{name} two", f"q_{name}"),
            node("Mul", f"q_{name} anchors", f"w_{name}"),
            node("Concat", f"p_{name} w_{name} rest_{name}", f"j_{name}", axis=4),
            node("Reshape", f"j_{name} rows", f"o_{name}"),
        ]
    model = model_of(
        [
            node("Conv", "x w_a_0 b_0", "c_a"),
            node("Conv", "x w_b_0", "c_b"),
            *scales,
            node("Concat", "o_a o_b", axis=1),
        ],
        (1, 4, 6, 8),
        {
            "w_a_0": floats(21, 4, 1, 1),
            "b_0": floats(21),
            "w_b_0": floats(21, 4, 1, 1),
            "five": ints(1, 3, 7, 6, 8),
            "parts": ints(2, 2, 3),
            "two": f32(2),
            "grid": floats(1, 1, 6, 8, 2),
            "stride": f32(8),
            "anchors": floats(1, 3, 1, 1, 2),
            "rows": ints(1, -1, 7),
        },
    )
    found = check(model, tmp_path)
    assert found.outputs[0].shape == (1, 288, 7)


def test_yolov8_decodes_in_the_graph(tmp_path: Path) -> None:
    """Distances are the expectations of sixteen bins, a convolution of a softmax."""
    model = model_of(
        [
            node("Conv", "x w", "c"),
            node("Reshape", "c flat", "f"),
            node("Split", "f parts", "box cls", axis=1),
            node("Reshape", "box bins", "r"),
            node("Transpose", "r", "t", perm=[0, 2, 1, 3]),
            node("Softmax", "t", "s", axis=1),
            node("Conv", "s steps", "e"),
            node("Reshape", "e four", "d"),
            node("Slice", "d zero two axis", "lt"),
            node("Slice", "d two end axis", "rb"),
            node("Sub", "anchors lt", "a"),
            node("Add", "anchors rb", "b"),
            node("Add", "a b", "sum"),
            node("Div", "sum half", "centre"),
            node("Sub", "b a", "size"),
            node("Concat", "centre size", "j", axis=1),
            node("Mul", "j strides", "boxes"),
            node("Sigmoid", "cls", "p"),
            node("Concat", "boxes p", axis=1),
        ],
        (1, 4, 6, 8),
        {
            "w": floats(70, 4, 1, 1),
            "flat": ints(1, 70, -1),
            "parts": ints(64, 6),
            "bins": ints(1, 4, 16, 48),
            "steps": np.arange(16, dtype=np.float32).reshape(1, 16, 1, 1),
            "four": ints(1, 4, 48),
            "zero": ints(0),
            "two": ints(2),
            "end": ints(4),
            "axis": ints(1),
            "anchors": floats(1, 2, 48),
            "half": f32(2),
            "strides": floats(1, 48),
        },
    )
    found = check(model, tmp_path)
    assert found.outputs[0].shape == (1, 10, 48)


def test_yolov10_ends_before_it_chooses_the_best_boxes(tmp_path: Path) -> None:
    model = model_of(
        [
            node("Transpose", "x", "t", perm=[0, 2, 1]),
            node("Split", "t parts", "boxes scores", axis=2),
            node("ReduceMax", "scores", "best", axes=[-1], keepdims=0),
            node("TopK", "best k", "values places", axis=-1),
            node("Unsqueeze", "places last", "u"),
            node("Tile", "u four", "tiled"),
            node("GatherElements", "boxes tiled", "chosen", axis=1),
            node("GatherElements", "scores u", "of_them", axis=1),
            node("Concat", "chosen of_them", axis=-1),
        ],
        (1, 10, 40),
        {"parts": ints(4, 6), "k": ints(5), "last": ints(-1), "four": ints(1, 1, 4)},
    )
    found = imported(model, tmp_path)
    assert [(output.name, output.shape) for output in found.outputs] == [
        ("best", (1, 40)),
        ("boxes", (1, 40, 4)),
        ("scores", (1, 40, 6)),
    ]
    assert [cut.operator for cut in found.cuts] == ["TopK"]
    x = random_input((1, 10, 40))
    best, boxes, scores = run_imported(found, x)
    assert np.array_equal(boxes, x.transpose(0, 2, 1)[..., :4])
    assert np.array_equal(best, scores.max(axis=-1))


def test_a_focus_layer(tmp_path: Path) -> None:
    slices = []
    for number, (row, column) in enumerate(((0, 0), (1, 0), (0, 1), (1, 1))):
        slices += [
            node("Slice", f"x at_{row} end rows two", f"r{number}"),
            node("Slice", f"r{number} at_{column} end columns two", f"p{number}"),
        ]
    model = model_of(
        [*slices, node("Concat", "p0 p1 p2 p3", "j", axis=1), node("Conv", "j w", pads=[1, 1, 1, 1])],
        (1, 3, 8, 8),
        {
            "at_0": ints(0),
            "at_1": ints(1),
            "end": ints(1 << 60),
            "rows": ints(2),
            "columns": ints(3),
            "two": ints(2),
            "w": floats(5, 12, 3, 3),
        },
    )
    assert kinds(check(model, tmp_path))[-2:] == ["route", "convolutional"]


def test_a_vision_transformer_block(tmp_path: Path) -> None:
    """Products with weights become convolutions of size 1: each has a precision."""
    model = model_of(
        [
            node("Conv", "x patch", "c", strides=[2, 2]),
            node("Reshape", "c flat", "f"),
            node("Transpose", "f", "t", perm=[0, 2, 1]),
            node("LayerNormalization", "t one zero", "n", axis=-1),
            node("MatMul", "n qkv", "m"),
            node("Add", "m bias", "a"),
            node("Reshape", "a heads", "h"),
            node("Transpose", "h", "p", perm=[2, 0, 3, 1, 4]),
            node("Split", "p", "q k v", axis=0),
            node("Squeeze", "q first", "q1"),
            node("Squeeze", "k first", "k1"),
            node("Squeeze", "v first", "v1"),
            node("Transpose", "k1", "kt", perm=[0, 1, 3, 2]),
            node("MatMul", "q1 kt", "s"),
            node("Softmax", "s", "share", axis=-1),
            node("MatMul", "share v1", "o"),
            node("Transpose", "o", "ot", perm=[0, 2, 1, 3]),
            node("Reshape", "ot tokens", "r"),
            node("MatMul", "r project", "pr"),
            node("Add", "t pr", "sum"),
            node("MatMul", "sum wide", "w1"),
            node("Gelu", "w1", "g"),
            node("MatMul", "g narrow", "w2"),
            node("Add", "sum w2"),
        ],
        (1, 3, 8, 8),
        {
            "patch": floats(8, 3, 2, 2),
            "flat": ints(1, 8, 16),
            "one": floats(8),
            "zero": floats(8),
            "qkv": floats(8, 24),
            "bias": floats(24),
            "heads": ints(1, 16, 3, 2, 4),
            "first": ints(0),
            "tokens": ints(1, 16, 8),
            "project": floats(8, 8),
            "wide": floats(8, 16),
            "narrow": floats(16, 8),
        },
        opset=20,
    )
    found = check(model, tmp_path)
    assert kinds(found).count("convolutional") == 5
    assert kinds(found).count("layer_norm") == 1
    assert [dict(section.keys).get("activation") for section in found.sections.found].count("gelu") == 1


@pytest.mark.parametrize("square", ["Pow", "Mul"])
@pytest.mark.parametrize("again", ["d", "e"])
def test_layer_normalisation_that_is_spelt_out(square: str, again: str, tmp_path: Path) -> None:
    """As exports before opset 17 write it, with one difference from the mean or with two equal ones."""
    model = model_of(
        [
            node("ReduceMean", "x", "m", axes=[1]),
            node("Sub", "x m", "d"),
            *([node("Sub", "x m", "e")] if again == "e" else []),
            node(square, f"{again} two" if square == "Pow" else f"d {again}", "s"),
            node("ReduceMean", "s", "v", axes=[1]),
            node("Add", "v tiny", "a"),
            node("Sqrt", "a", "r"),
            node("Div", "d r", "n"),
            node("Mul", "n gain", "g"),
            node("Add", "g offset"),
        ],
        (1, 6, 4, 5),
        {"two": f32(2), "tiny": f32(1e-3), "gain": floats(6, 1, 1), "offset": floats(6, 1, 1)},
    )
    assert kinds(check(model, tmp_path)).count("layer_norm") == 1


def test_other_quotients_are_no_layer_normalisation(tmp_path: Path) -> None:
    """The mean of the squares lies along other axes than the mean."""
    model = model_of(
        [
            node("ReduceMean", "x", "m", axes=[1]),
            node("Sub", "x m", "d"),
            node("Mul", "d d", "s"),
            node("ReduceMean", "s", "v", axes=[1, 2]),
            node("Add", "v tiny", "a"),
            node("Sqrt", "a", "r"),
            node("Div", "d r"),
        ],
        (1, 6, 4, 5),
        {"tiny": f32(1e-3)},
    )
    assert "layer_norm" not in kinds(check(model, tmp_path))
