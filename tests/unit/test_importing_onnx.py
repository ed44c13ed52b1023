"""Each ONNX operator that is imported computes what onnx's reference evaluator computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper
from onnx_models import check, imported, kinds, model_of, node, random_input, run_imported

from harness.config.import_options import ImportOptions
from harness.errors import ConfigurationError
from harness.importing.metadata import describe

RANDOM = np.random.default_rng(3)


def weights(*shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return RANDOM.normal(size=shape).astype(np.float32)


def ints(*values: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(values, np.int64)


def f32(value: float) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.array(value, np.float32)


ONE_OPERATOR = {
    "conv": model_of(
        [node("Conv", "x w b", pads=[1, 2, 0, 1], strides=[2, 1], dilations=[1, 2], group=2)],
        constants={"w": weights(6, 2, 3, 2), "b": weights(6)},
    ),
    "conv_same_upper": model_of(
        [node("Conv", "x w", auto_pad="SAME_UPPER", strides=[2, 2])], constants={"w": weights(3, 4, 3, 3)}
    ),
    "conv_same_lower": model_of(
        [node("Conv", "x w", auto_pad="SAME_LOWER", strides=[1, 2])], constants={"w": weights(3, 4, 2, 2)}
    ),
    "conv_1d": model_of(
        [node("Conv", "x w b", pads=[2, 1], strides=[2])],
        (1, 4, 9),
        {"w": weights(3, 4, 3), "b": weights(3)},
    ),
    "deconvolution": model_of(
        [node("ConvTranspose", "x w b", strides=[2, 3], pads=[1, 0, 1, 2], output_padding=[1, 0])],
        constants={"w": weights(4, 6, 3, 4), "b": weights(6)},
    ),
    "deconvolution_dilated": model_of(
        [node("ConvTranspose", "x w", dilations=[2, 1])], constants={"w": weights(4, 3, 2, 2)}
    ),
    "max_pool": model_of([node("MaxPool", "x", kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1])]),
    "max_pool_ceil": model_of([node("MaxPool", "x", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)]),
    "max_pool_dilated": model_of([node("MaxPool", "x", kernel_shape=[2, 2], dilations=[2, 3])]),
    "average_pool": model_of([node("AveragePool", "x", kernel_shape=[3, 3], pads=[1, 1, 1, 1])]),
    "average_pool_counting": model_of(
        [
            node(
                "AveragePool",
                "x",
                kernel_shape=[3, 3],
                pads=[1, 1, 1, 1],
                count_include_pad=1,
                strides=[2, 2],
            )
        ]
    ),
    "average_pool_1d": model_of([node("AveragePool", "x", kernel_shape=[3], strides=[2])], (1, 4, 9)),
    "global_average": model_of([node("GlobalAveragePool", "x")]),
    "global_max": model_of([node("GlobalMaxPool", "x")]),
    "gemm": model_of(
        [node("Gemm", "x w b", transB=1, alpha=0.5, beta=2.0)], (1, 5), {"w": weights(7, 5), "b": weights(7)}
    ),
    "gemm_rows": model_of([node("Gemm", "x w b")], (1, 5), {"w": weights(5, 7), "b": weights(1, 7)}),
    "matmul_constant": model_of([node("MatMul", "x w")], (1, 6, 5), {"w": weights(5, 7)}),
    "matmul_image": model_of([node("MatMul", "x w")], (1, 3, 6, 5), {"w": weights(5, 7)}),
    "matmul_left": model_of([node("MatMul", "w x")], (1, 6, 5), {"w": weights(1, 4, 6)}),
    "matmul_itself": model_of(
        [node("Transpose", "x", "t", perm=[0, 1, 3, 2]), node("MatMul", "x t")], (1, 3, 6, 5)
    ),
    "batch_norm": model_of(
        [node("BatchNormalization", "x s b m v")],
        constants={"s": weights(4), "b": weights(4), "m": weights(4), "v": np.abs(weights(4)) + 0.1},
    ),
    "instance_norm": model_of(
        [node("InstanceNormalization", "x s b")], constants={"s": weights(4), "b": weights(4)}
    ),
    "layer_norm": model_of(
        [node("LayerNormalization", "x s b", axis=-1)], (1, 6, 8), {"s": weights(8), "b": weights(8)}
    ),
    "layer_norm_of_all_but_the_first": model_of(
        [node("LayerNormalization", "x s", axis=1, epsilon=0.1)], (1, 4, 5, 6), {"s": weights(4, 5, 6)}
    ),
    "group_norm": model_of(
        [node("GroupNormalization", "x s b", num_groups=2)],
        (1, 4, 5, 5),
        {"s": weights(4), "b": weights(4)},
        opset=21,
    ),
    "lp_norm": model_of([node("LpNormalization", "x", axis=1)]),
    "softmax": model_of([node("Softmax", "x", axis=1)]),
    "softmax_last": model_of([node("Softmax", "x")], (1, 6, 8)),
    "softmax_5d": model_of(
        [node("Reshape", "x s", "r"), node("Softmax", "r", axis=2)], (1, 8, 3, 5), {"s": ints(1, 2, 4, 3, 5)}
    ),
    "prelu": model_of([node("PRelu", "x s")], constants={"s": np.abs(weights(4, 1, 1))}),
    "prelu_one": model_of([node("PRelu", "x s")], constants={"s": np.abs(weights(1))}),
    "clip": model_of([node("Clip", "x a b")], constants={"a": f32(-0.5), "b": f32(1.5)}),
    "clip_below": model_of([node("Clip", "x a")], constants={"a": f32(-0.5)}),
    "hard_sigmoid": model_of([node("HardSigmoid", "x", alpha=0.3, beta=0.4)]),
    "leaky": model_of([node("LeakyRelu", "x", alpha=0.3)]),
    "elu": model_of([node("Elu", "x", alpha=0.7)]),
    "abs_sqrt": model_of([node("Abs", "x", "a"), node("Sqrt", "a")]),
    "reciprocal": model_of([node("Exp", "x", "a"), node("Reciprocal", "a")]),
    "pow": model_of([node("Pow", "x p")], constants={"p": f32(3)}),
    "selu": model_of([node("Selu", "x")]),
    "sum": model_of([node("Sum", "x c x")], constants={"c": weights(4, 1, 1)}),
    "mean": model_of([node("Mean", "x c x")], constants={"c": weights(1, 8)}),
    "min_max": model_of(
        [node("Max", "x c", "m"), node("Min", "m d")], constants={"c": weights(4, 1, 1), "d": weights(6, 1)}
    ),
    "broadcast_5d": model_of(
        [node("Reshape", "x s", "r"), node("Mul", "r c")],
        (1, 8, 3, 5),
        {"s": ints(1, 2, 4, 3, 5), "c": weights(4, 1, 1)},
    ),
    "scalar_first": model_of([node("Sub", "c x", "d"), node("Div", "c d")], constants={"c": f32(30.0)}),
    "reduce_mean_axes": model_of([node("ReduceMean", "x", axes=[1], keepdims=0)]),
    "reduce_sum_input": model_of([node("ReduceSum", "x a", keepdims=1)], constants={"a": ints(-1, 1)}),
    "reduce_all": model_of([node("ReduceMax", "x", keepdims=1)]),
    "reduce_l2": model_of([node("ReduceL2", "x", axes=[2, 3])]),
    "reduce_sum_square": model_of([node("ReduceSumSquare", "x", axes=[1])]),
    "reshape_zero": model_of([node("Reshape", "x s")], constants={"s": ints(0, -1, 8)}),
    "flatten": model_of([node("Flatten", "x")]),
    "squeeze": model_of([node("Squeeze", "x a")], (1, 4, 1, 8), {"a": ints(2)}),
    "unsqueeze": model_of([node("Unsqueeze", "x a")], (1, 4, 8), {"a": ints(-1, 1)}),
    "transpose_5d": model_of(
        [node("Reshape", "x s", "r"), node("Transpose", "r", perm=[0, 3, 1, 4, 2])],
        (1, 8, 3, 5),
        {"s": ints(1, 2, 4, 3, 5)},
    ),
    "concat_rows": model_of([node("Concat", "x c x", axis=2)], constants={"c": weights(1, 4, 1, 8)}),
    "concat_5d": model_of(
        [node("Reshape", "x s", "r"), node("Concat", "r r", axis=3)], (1, 8, 3, 5), {"s": ints(1, 2, 4, 3, 5)}
    ),
    "split": model_of([node("Split", "x s", "y z", axis=1)], constants={"s": ints(1, 3)}, outputs="y z"),
    "split_even": model_of([node("Split", "x", "y z", axis=3)], outputs="y z"),
    "slice": model_of(
        [node("Slice", "x b e a s")],
        constants={"b": ints(1, -1), "e": ints(3, -100), "a": ints(1, 3), "s": ints(1, -2)},
    ),
    "slice_steps": model_of(
        [node("Slice", "x b e a s")],
        constants={"b": ints(1, 0), "e": ints(6, 8), "a": ints(2, 3), "s": ints(2, 3)},
    ),
    "gather_one": model_of([node("Gather", "x i", axis=1)], constants={"i": np.array(-1, np.int64)}),
    "gather_some": model_of([node("Gather", "x i", axis=2)], constants={"i": ints(0, 2, 4, 1, 1)}),
    "gather_shaped": model_of(
        [node("Gather", "x i", axis=1)], constants={"i": ints(3, 1, 0, 2).reshape(2, 2)}
    ),
    "expand": model_of([node("Expand", "x s")], (1, 4, 1, 8), {"s": ints(1, 4, 5, 8)}),
    "tile": model_of([node("Tile", "x r")], constants={"r": ints(1, 2, 1, 3)}),
    "pad": model_of([node("Pad", "x p v")], constants={"p": ints(0, 1, 2, 0, 0, 0, 1, 3), "v": f32(1.5)}),
    "pad_reflect": model_of(
        [node("Pad", "x p", mode="reflect")], constants={"p": ints(0, 0, 2, 1, 0, 0, 1, 3)}
    ),
    "depth_to_space": model_of([node("DepthToSpace", "x", blocksize=2)], (1, 8, 3, 5)),
    "depth_to_space_crd": model_of([node("DepthToSpace", "x", blocksize=2, mode="CRD")], (1, 8, 3, 5)),
    "space_to_depth": model_of([node("SpaceToDepth", "x", blocksize=2)], (1, 3, 4, 6)),
}
RESIZES = [
    {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    {"mode": "nearest", "coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_ceil"},
    {"mode": "nearest", "coordinate_transformation_mode": "align_corners", "nearest_mode": "ceil"},
    {"mode": "linear", "coordinate_transformation_mode": "half_pixel"},
    {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"},
    {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    {"mode": "linear", "coordinate_transformation_mode": "asymmetric"},
]


@pytest.mark.parametrize("name", ONE_OPERATOR)
def test_an_operator_computes_what_the_reference_computes(name: str, tmp_path: Path) -> None:
    check(ONE_OPERATOR[name], tmp_path)


@pytest.mark.parametrize("attributes", RESIZES, ids=lambda attributes: "-".join(attributes.values()))
@pytest.mark.parametrize("scales", [(2.0, 2.0), (1.5, 0.5)])
def test_every_way_of_resizing(
    attributes: dict[str, str], scales: tuple[float, float], tmp_path: Path
) -> None:
    factors = np.array([1, 1, *scales], np.float32)
    check(model_of([node("Resize", "x - s", **attributes)], constants={"s": factors}), tmp_path)


@pytest.mark.parametrize("coordinates", ["asymmetric", "half_pixel"])
def test_a_scale_that_is_not_the_ratio_of_the_sizes_is_kept(coordinates: str, tmp_path: Path) -> None:
    factors = np.array([1, 1, 2.6, 1.3], np.float32)
    resized = node("Resize", "x - s", mode="linear", coordinate_transformation_mode=coordinates)
    found = check(model_of([resized], constants={"s": factors}), tmp_path)
    assert {"scale_x", "scale_y"} <= dict(found.sections.found[0].keys).keys()


def test_a_resize_to_a_size(tmp_path: Path) -> None:
    sized = node("Resize", "x - - s", mode="linear", coordinate_transformation_mode="half_pixel")
    check(model_of([sized], constants={"s": ints(1, 4, 9, 5)}), tmp_path)


def test_doubling_is_an_upsample(tmp_path: Path) -> None:
    for coordinates, rounding in (("asymmetric", "floor"), ("half_pixel", "round_prefer_ceil")):
        doubled = node(
            "Resize",
            "x - s",
            mode="nearest",
            coordinate_transformation_mode=coordinates,
            nearest_mode=rounding,
        )
        found = check(model_of([doubled], constants={"s": np.array([1, 1, 2, 2], np.float32)}), tmp_path)
        assert kinds(found) == ["upsample"]


@pytest.mark.parametrize("opset", [9, 10])
def test_the_resize_of_old_opsets(opset: int, tmp_path: Path) -> None:
    op = "Upsample" if opset == 9 else "Resize"
    old = model_of(
        [node(op, "x s", mode="nearest")], constants={"s": np.array([1, 1, 2, 2], np.float32)}, opset=opset
    )
    found = imported(old, tmp_path)
    assert kinds(found) == ["upsample"]


def chain(*nodes: Any, shape: tuple[int, ...] = (1, 4, 6, 8), **constants: Any) -> ModelProto:
    return model_of(nodes, shape, constants)


ACTIVATIONS = {
    "swish": chain(node("Sigmoid", "c", "s"), node("Mul", "c s")),
    "hard_swish": chain(node("HardSigmoid", "c", "s", alpha=1 / 6, beta=0.5), node("Mul", "s c")),
    "hard_swish ": chain(
        node("Add", "c three", "a"),
        node("Clip", "a zero six", "k"),
        node("Mul", "c k", "m"),
        node("Div", "m six"),
        three=f32(3),
        zero=f32(0),
        six=f32(6),
    ),
    "hard_swish  ": chain(
        node("Add", "c three", "a"),
        node("Clip", "a zero six", "k"),
        node("Div", "k six", "m"),
        node("Mul", "c m"),
        three=f32(3),
        zero=f32(0),
        six=f32(6),
    ),
    "hard_sigmoid": chain(
        node("Add", "c three", "a"),
        node("Relu", "a", "r"),
        node("Min", "r six", "k"),
        node("Mul", "k sixth"),
        three=f32(3),
        six=f32(6),
        sixth=f32(1 / 6),
    ),
    "relu6": chain(node("Max", "c zero", "m"), node("Min", "m six"), zero=f32(0), six=f32(6)),
    "relu": chain(node("Relu", "c")),
    "leaky": chain(node("LeakyRelu", "c", alpha=0.1)),
    "mish": chain(node("Softplus", "c", "s"), node("Tanh", "s", "t"), node("Mul", "c t")),
    "gelu": chain(
        node("Div", "c root", "d"),
        node("Erf", "d", "e"),
        node("Add", "e one", "a"),
        node("Mul", "c a", "m"),
        node("Mul", "m half"),
        root=f32(2**0.5),
        one=f32(1),
        half=f32(0.5),
    ),
    "gelu ": chain(
        node("Mul", "c half", "h"),
        node("Mul", "c root", "d"),
        node("Erf", "d", "e"),
        node("Add", "one e", "a"),
        node("Mul", "h a"),
        root=f32(0.5**0.5),
        one=f32(1),
        half=f32(0.5),
    ),
    "tanh": chain(node("Tanh", "c")),
    "logistic": chain(node("Sigmoid", "c")),
}


@pytest.mark.parametrize("word", ACTIVATIONS)
def test_a_spelt_out_activation_is_fused_into_the_convolution(word: str, tmp_path: Path) -> None:
    model = ModelProto()
    model.CopyFrom(ACTIVATIONS[word])
    nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([node("Conv", "x w b", "c"), *nodes])
    model.graph.initializer.extend(
        model_of([], constants={"w": weights(4, 4, 1, 1), "b": weights(4)}).graph.initializer
    )
    found = check(model, tmp_path)
    assert kinds(found) == ["convolutional"]
    assert ("activation", word.strip()) in found.sections.found[0].keys


def test_a_tanh_gelu_is_recognised(tmp_path: Path) -> None:
    model = chain(
        node("Pow", "x three", "p"),
        node("Mul", "p k", "q"),
        node("Add", "x q", "a"),
        node("Mul", "a r", "s"),
        node("Tanh", "s", "t"),
        node("Add", "t one", "u"),
        node("Mul", "x u", "v"),
        node("Mul", "v half"),
        three=f32(3),
        k=f32(0.044715),
        r=f32(0.7978845608),
        one=f32(1),
        half=f32(0.5),
    )
    found = check(model, tmp_path)
    assert kinds(found) == ["activation"]


def test_scales_padding_and_normalisation_become_part_of_a_convolution(tmp_path: Path) -> None:
    model = model_of(
        [
            node("Pad", "x p", "a"),
            node("Conv", "a w", "c", pads=[0, 1, 0, 0]),
            node("BatchNormalization", "c s b m v", "n"),
            node("Mul", "n by", "t"),
            node("Sub", "t less", "u"),
            node("Relu", "u"),
        ],
        constants={
            "p": ints(0, 0, 1, 0, 0, 0, 2, 1),
            "w": weights(5, 4, 3, 3),
            "s": weights(5),
            "b": weights(5),
            "m": weights(5),
            "v": np.abs(weights(5)) + 0.1,
            "by": weights(1, 5, 1, 1),
            "less": weights(5, 1, 1),
        },
    )
    assert kinds(check(model, tmp_path)) == ["convolutional"]


@pytest.mark.parametrize(
    ("kernel", "kept"), [(1, ["activation", "pad", "pool"]), (2, ["activation", "pool"])]
)
def test_padding_that_a_window_may_see_alone_stays_a_layer(
    kernel: int, kept: list[str], tmp_path: Path
) -> None:
    pool = node("MaxPool", "p", kernel_shape=[kernel, kernel], strides=[2, 2])
    model = model_of(
        [node("Relu", "x", "r"), node("Pad", "r s", "p"), pool],
        constants={"s": ints(0, 0, 0, 0, 0, 0, 1, 1)},
    )
    assert kinds(check(model, tmp_path)) == kept


def test_normalisation_of_a_transposed_convolution(tmp_path: Path) -> None:
    model = model_of(
        [node("ConvTranspose", "x w b", "c"), node("Mul", "c by", "m"), node("Add", "m more")],
        constants={
            "w": weights(4, 6, 2, 2),
            "b": weights(6),
            "by": weights(6, 1, 1),
            "more": weights(6, 1, 1),
        },
    )
    assert kinds(check(model, tmp_path)) == ["deconvolutional"]


def test_normalisation_alone_is_a_depthwise_convolution(tmp_path: Path) -> None:
    found = check(ONE_OPERATOR["batch_norm"], tmp_path)
    assert kinds(found) == ["convolutional"]
    assert ("groups", "4") in found.sections.found[0].keys


def test_normalisation_by_nearby_channels(tmp_path: Path) -> None:
    """Onnx's reference evaluator computes only the first channel."""
    found = imported(model_of([node("LRN", "x", size=3, alpha=0.5, beta=0.75, bias=1.5)]), tmp_path)
    x = random_input((1, 4, 6, 8))
    (output,) = run_imported(found, x)
    squares = np.pad(x**2, ((0, 0), (1, 1), (0, 0), (0, 0)))
    nearby = squares[:, :-2] + squares[:, 1:-1] + squares[:, 2:]
    assert np.allclose(output, x / (1.5 + 0.5 / 3 * nearby) ** 0.75, rtol=1e-5)


def test_a_normalised_input_is_a_depthwise_convolution(tmp_path: Path) -> None:
    model = model_of(
        [node("Sub", "x m", "s"), node("Mul", "s by", "n"), node("Conv", "n w", pads=[1, 1, 1, 1])],
        constants={"m": weights(1, 4, 1, 1), "by": f32(0.5), "w": weights(2, 4, 3, 3)},
    )
    assert kinds(check(model, tmp_path)) == ["convolutional", "convolutional"]


def test_a_channels_last_input_of_bytes(tmp_path: Path) -> None:
    """As tf2onnx writes it: the cfg's input is channels-first, and takes pixels as they are."""
    model = model_of(
        [node("Cast", "x", "f", to=1), node("Transpose", "f", "t", perm=[0, 3, 1, 2]), node("Conv", "t w")],
        (1, 6, 8, 3),
        {"w": weights(2, 3, 3, 3)},
    )
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.UINT8
    found = imported(model, tmp_path)
    assert (kinds(found), found.sections.input_shape) == (["convolutional"], (3, 6, 8))
    assert found.normalization == ((0.0,), (1.0,))
    assert describe(found, ImportOptions()).preprocessing.std == (1.0,)


def test_a_channel_shuffle_is_one_transposition(tmp_path: Path) -> None:
    model = model_of(
        [
            node("Conv", "x w", "c"),
            node("Reshape", "c s", "r"),
            node("Transpose", "r", "t", perm=[0, 2, 1, 3, 4]),
            node("Reshape", "t back", "q"),
            node("Conv", "q w"),
        ],
        constants={"w": weights(4, 4, 1, 1), "s": ints(1, 2, 2, 6, 8), "back": ints(1, 4, 6, 8)},
    )
    assert kinds(check(model, tmp_path)) == ["convolutional", "transpose", "convolutional"]


def test_attention(tmp_path: Path) -> None:
    """Queries, keys and values of one convolution, two heads, as in YOLOv10's attention."""
    model = model_of(
        [
            node("Conv", "x w", "c"),
            node("Reshape", "c s", "r"),
            node("Split", "r sizes", "q k v", axis=2),
            node("Transpose", "q", "t", perm=[0, 1, 3, 2]),
            node("MatMul", "t k", "a"),
            node("Mul", "a by", "b"),
            node("Softmax", "b", "p", axis=-1),
            node("Transpose", "p", "u", perm=[0, 1, 3, 2]),
            node("MatMul", "v u", "o"),
            node("Reshape", "o back", "y"),
        ],
        constants={
            "w": weights(24, 4, 1, 1),
            "s": ints(1, 2, 12, 48),
            "sizes": ints(4, 4, 4),
            "by": f32(0.5),
            "back": ints(1, 8, 6, 8),
        },
    )
    check(model, tmp_path)


def test_shapes_are_computed_when_the_model_is_imported(tmp_path: Path) -> None:
    model = model_of(
        [
            node("Shape", "x", "s"),
            node("Gather", "s zero", "n"),
            node("Gather", "s one", "c"),
            node("Unsqueeze", "n axis", "n1"),
            node("Unsqueeze", "c axis", "c1"),
            node("Mul", "c1 two", "c2"),
            node("Concat", "n1 c2 rest", "t", axis=0),
            node("Reshape", "x t"),
        ],
        constants={
            "zero": np.array(0, np.int64),
            "one": np.array(1, np.int64),
            "axis": ints(0),
            "two": ints(2),
            "rest": ints(-1),
        },
    )
    assert kinds(check(model, tmp_path)) == ["reshape"]


def test_a_constant_condition_chooses_its_branch(tmp_path: Path) -> None:
    branches = {
        key: helper.make_graph(
            [node(op, "x", f"{op}_out")], key, [], [helper.make_empty_tensor_value_info(f"{op}_out")]
        )
        for key, op in (("then_branch", "Relu"), ("else_branch", "Neg"))
    }
    for condition, word in ((True, "relu"), (False, "neg")):
        model = model_of([node("If", "c", **branches)], constants={"c": np.array(condition)})
        found = check(model, tmp_path)
        section = found.sections.found[0]
        assert word in (section.kind, dict(section.keys).get("activation"))


def test_post_processing_is_left_out_and_described(tmp_path: Path) -> None:
    model = model_of(
        [
            node("Transpose", "x", "boxes", perm=[0, 2, 1]),
            node("Slice", "x b e a", "best"),
            node("NonMaxSuppression", "boxes best most", "y"),
        ],
        (1, 4, 9),
        {"b": ints(0), "e": ints(1), "a": ints(1), "most": ints(5)},
    )
    found = imported(model, tmp_path)
    assert [output.name for output in found.outputs] == ["boxes", "best"]
    assert [(cut.operator, cut.inputs) for cut in found.cuts] == [("NonMaxSuppression", ("boxes", "best"))]
    assert list(found.cuts[0].constants) == ["most"]


def test_outputs_keep_their_names_and_two_of_one_tensor_are_two_layers(tmp_path: Path) -> None:
    model = model_of(
        [node("Relu", "x", "792"), node("Identity", "792", "same"), node("Identity", "x", "input")],
        outputs="792 same input",
    )
    found = check(model, tmp_path)
    assert [output.section for output in found.outputs] == ["t792", "same", "x_copy"]


def test_an_operator_that_no_output_needs_does_not_matter(tmp_path: Path) -> None:
    model = model_of([node("Relu", "x"), node("Lstm", "x", "unused")])
    assert kinds(imported(model, tmp_path)) == ["activation"]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (model_of([node("LSTM", "x")]), "LSTM 'the_LSTM' cannot be imported: this operator is not supported"),
        (
            model_of([node("Relu", "x", domain="my.own")]),
            "Relu 'the_Relu' cannot be imported: this operator of",
        ),
        (model_of([node("Conv", "x x")]), "Conv 'the_Conv' cannot be imported"),
        (model_of([node("Relu", "z")]), "it reads 'z', which no operation before it computes"),
        (model_of([node("Add", "x y")]), "it reads 'y', which no operation before it computes"),
        (model_of([node("Reshape", "x s")], constants={"s": ints(5, 5)}), "Reshape 'the_Reshape' cannot be"),
        (model_of([node("Relu", "x")], (2, 4, 4)), "its batch is 2"),
        (
            model_of([node("Relu", "x")], (1, 3, "height", "width")),
            "the size of the input 'x' is not fixed: 1,3,?,?",
        ),
        (model_of([node("Relu", "x")], opset=3), "is of opset 3"),
        (model_of([node("Relu", "x")], opset=99), "is of opset 99"),
        (
            model_of([node("MaxPool", "x", kernel_shape=[2, 2], strides=[2, 2], pads=[2, 0, 0, 0])]),
            "some of its windows lie wholly in its padding",
        ),
        (model_of([node("Relu", "x")], (1, 1 << 20, 1 << 20)), "more than"),
        (model_of([node("Expand", "x s")], constants={"s": ints(1 << 28, 4, 6, 8)}), "more than"),
        (
            model_of(
                [node("ConstantOfShape", "s", "c"), node("Add", "x c")],
                constants={"s": ints(1 << 20, 1 << 20, 1 << 20)},
            ),
            "more than",
        ),
    ],
    ids=lambda value: "" if isinstance(value, ModelProto) else str(value)[:40],
)
def test_what_cannot_be_imported_is_one_error(model: ModelProto, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        imported(model, tmp_path)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("shape", "example"),
    [
        (("n", 3, "height", "width"), "1,3,H,W"),
        (("n", 1, 64, "width"), "1,1,64,W"),
        ((1, "channels", 8, 8), "1,3,8,8"),
        ((1, "height", "width", 1), "1,1,H,W"),
        ((1, 40, "length"), "1,40,N"),
    ],
)
def test_the_hint_for_open_sizes_keeps_the_others(
    shape: tuple[int | str, ...], example: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        imported(model_of([node("Relu", "x")], shape), tmp_path)
    listed = example.replace(",", ", ")
    assert caught.value.hint == f"Give it: --input-shape {example}, or in a sweep input_shape: [{listed}]."


def test_the_size_that_ultralytics_names_replaces_an_open_one(tmp_path: Path) -> None:
    model = model_of([node("Relu", "x")], ("batch", 3, "height", "width"))
    entry = model.metadata_props.add()
    entry.key, entry.value = "imgsz", "[32, 64]"
    assert imported(model, tmp_path).outputs[0].shape == (1, 3, 32, 64)


def test_a_given_shape_replaces_an_open_one(tmp_path: Path) -> None:
    model = model_of([node("Relu", "x")], (1, 3, "height", "width"))
    found = imported(model, tmp_path, (1, 3, 10, 12))
    assert found.outputs[0].shape == (1, 3, 10, 12)
