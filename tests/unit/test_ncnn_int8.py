"""int8 layers in ncnn's files: numbers, keys and scales; and the QDQ models that they are made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from onnx_models import model_of, node

from harness.errors import ConfigurationError
from harness.runtimes.ncnn_int8 import in_int8, int8_table
from harness.runtimes.ncnn_network import read_network, write_network
from harness.runtimes.qdq_onnx import QuantisedLayer, in_float

Array = npt.NDArray[Any]

RANDOM = np.random.default_rng(7)
FIRST, APART, LAST = (RANDOM.normal(size=size).astype(np.float32) for size in (24, 16, 20))
SLOPES = RANDOM.normal(size=4).astype(np.float32)
GRAPH = """7767517
6 8
Input in0 0 1 in0
Convolution first 1 1 in0 a 0=4 1=1 5=1 6=24 9=2 -23310=1,0.1
Split two 1 2 a b c
ConvolutionDepthWise apart 1 1 b d 0=4 1=2 5=0 6=16 7=4
PReLU slopes 1 1 d e 0=4
Convolution last 2 1 e c f 0=5 1=1 5=0 6=20
"""
CONTENT = b"".join(
    values if isinstance(values, bytes) else values.tobytes()
    for values in (bytes(4), FIRST, SLOPES, bytes(4), APART, SLOPES, bytes(4), LAST)
)


def layer(weights: Array, outputs: int, largest: float = 2.0) -> QuantisedLayer:
    rows = weights.reshape(outputs, -1)
    steps = (np.abs(rows).max(axis=1) / 127).astype(np.float32)
    return QuantisedLayer(name="it", weights=rows, steps=steps, largest=largest)


def numbers(graph: str, content: bytes, name: str) -> list[Array]:
    return next(each.numbers for each in read_network(graph, content) if each.name == name)


def test_a_network_is_written_as_it_was_read() -> None:
    graph, content = write_network(read_network(GRAPH, CONTENT))
    assert graph.splitlines()[2:] == GRAPH.splitlines()[2:]
    assert content == CONTENT


@pytest.mark.parametrize("content", [CONTENT[:-4], CONTENT + bytes(4), bytes([1]) + CONTENT[1:]])
def test_numbers_that_do_not_fit_are_an_error(content: bytes) -> None:
    with pytest.raises(ConfigurationError, match=r"more or fewer numbers .* others are Input, Split"):
        read_network(GRAPH, content)


def test_weights_become_int8_with_scales() -> None:
    graph, content = in_int8(GRAPH, CONTENT, [layer(LAST, 5, largest=4.0)], half=False)
    weights, scales, given = numbers(graph, content, "last")
    assert weights.dtype == np.int8
    assert np.abs(weights.reshape(5, 4)).max(axis=1).tolist() == [127] * 5
    np.testing.assert_allclose(weights.reshape(5, 4) / scales.reshape(5, 1), LAST.reshape(5, 4), atol=0.02)
    assert given.tolist() == [127 / 4]
    np.testing.assert_array_equal(numbers(graph, content, "first")[0], FIRST)
    assert "Convolution last 2 1 e c f 0=5 1=1 5=0 6=20 8=2" in graph
    assert int8_table(graph, content).splitlines() == [
        "last_param_0 " + " ".join(f"{scale:.9g}" for scale in scales),
        "last 31.75",
    ]


def test_the_scale_of_a_group_covers_its_channels() -> None:
    """Of a convolution with two channels in each of two groups."""
    graph = GRAPH.replace("7=4", "7=2")
    graph, content = in_int8(graph, CONTENT, [layer(APART, 4)], half=False)
    weights, scales, _ = numbers(graph, content, "apart")
    pairs = np.abs(APART.reshape(2, -1))
    np.testing.assert_allclose(scales, 127 / pairs.max(axis=1), rtol=1e-6)
    assert np.abs(weights.reshape(2, -1)).max(axis=1).tolist() == [127, 127]
    assert " 7=2 8=1" in graph


@pytest.mark.parametrize(
    ("graph", "largest", "keys"),
    [
        (GRAPH, 2.0, {"first": 102, "apart": 1, "last": 2}),  # PReLU reads float
        (GRAPH, 3.0, {"first": 2, "apart": 1, "last": 2}),  # the readers have other scales
        (GRAPH.replace("two 1 2 a b c", "two 1 3 a b c g"), 2.0, {"first": 2, "apart": 1, "last": 2}),
    ],
)
def test_int8_passes_between_layers_that_agree(graph: str, largest: float, keys: dict[str, int]) -> None:
    """An output of the network is float, too."""
    layers = [layer(FIRST, 4), layer(APART, 4), layer(LAST, 5, largest=largest)]
    written, content = in_int8(graph, CONTENT, layers, half=False)
    operators = read_network(written, content)
    assert {each.name: each.whole(8) for each in operators if each.name in keys} == keys
    if keys["first"] > 100:
        assert numbers(written, content, "first")[-1].tolist() == [63.5]


@pytest.mark.parametrize(("size", "without"), [(900, False), (1100, True)])
def test_winograd_is_left_out_where_its_sums_overflow(size: int, without: bool) -> None:
    """Sums of 127 * 127 * 576 pass 32 bits from 232 products on."""
    weights = np.ones(size, np.float32)
    graph = f"7767517\n1 2\nConvolution c 1 1 a b 0=4 1=1 6={size}\n"
    made, _ = in_int8(graph, bytes(4) + weights.tobytes(), [layer(weights, 4)], half=False)
    assert made.endswith(" 8=2 31=64\n" if without else " 8=2\n")


def test_the_other_weights_can_be_half() -> None:
    graph, content = in_int8(GRAPH, CONTENT, [layer(FIRST, 4)], half=True)
    kinds = {each.name: each.numbers[0].dtype for each in read_network(graph, content) if each.numbers}
    single = np.dtype(np.float32)
    assert kinds == {"first": np.int8, "apart": np.float16, "slopes": single, "last": np.float16}


def test_a_layer_that_the_converter_changed_is_named() -> None:
    with pytest.raises(ConfigurationError, match="changed the weights of the layer that makes it"):
        in_int8(GRAPH, CONTENT, [layer(2 * FIRST, 4)], half=False)


SCALE, ZERO = np.array(0.5, np.float32), np.array(28, np.uint8)
STORED = RANDOM.integers(-127, 128, (3, 4, 1, 1)).astype(np.int8)
STEPS = np.array([0.1, 0.2, 0.3], np.float32)
CONSTANTS: dict[str, Array] = {"s": SCALE, "z": ZERO, "w8": STORED, "ws": STEPS, "v8": STORED[..., 0, 0]}
QDQ = [
    node("QuantizeLinear", "x s z", "x8"),
    node("DequantizeLinear", "x8 s z", "xr"),
    node("DequantizeLinear", "w8 ws", "w", axis=0),
    node("Conv", "xr w", "y1"),
    node("QuantizeLinear", "y1 s z", "y8"),
    node("DequantizeLinear", "y8 s z", "y"),
]


def write(folder: Path, nodes: list[onnx.NodeProto], constants: dict[str, Array]) -> Path:
    path = folder / "net.onnx"
    path.write_bytes(model_of(nodes, constants=constants).SerializeToString())
    (folder / "copy").mkdir()
    return path


def test_a_qdq_model_becomes_float(tmp_path: Path) -> None:
    path = write(tmp_path, QDQ, CONSTANTS)
    copy, (found,) = in_float(path, tmp_path / "copy")
    weights = STORED * STEPS.reshape(3, 1, 1, 1)
    np.testing.assert_allclose(found.weights, weights, rtol=1e-6)
    np.testing.assert_array_equal(found.steps, STEPS)
    assert found.largest == 0.5 * (255 - 28)
    graph = onnx.load(str(copy)).graph
    assert [each.op_type for each in graph.node] == ["Conv", "Identity"]
    assert [each.name for each in graph.initializer] == ["w"]
    x = RANDOM.normal(size=(1, 4, 6, 8)).astype(np.float32)
    y: Any
    (y,) = ReferenceEvaluator(str(copy)).run(None, {"x": x})
    expected = np.einsum("oi,nihw->nohw", weights[..., 0, 0], x)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)


def test_a_matrix_product_has_its_outputs_first(tmp_path: Path) -> None:
    """Weights of MatMul are inputs by outputs."""
    nodes = [*QDQ[:2], node("DequantizeLinear", "v8 ws4", "w", axis=1), node("MatMul", "xr w", "y")]
    steps = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    path = write(tmp_path, nodes, CONSTANTS | {"ws4": steps})
    (found,) = in_float(path, tmp_path / "copy")[1]
    np.testing.assert_allclose(found.weights, (STORED[..., 0, 0] * steps).T, rtol=1e-6)
    np.testing.assert_array_equal(found.steps, steps)


def test_layers_with_float_inputs_or_weights_are_float(tmp_path: Path) -> None:
    weights = np.ones((3, 4, 1, 1), np.float32)
    nodes = [*QDQ[:3], node("Conv", "x w", "y1"), node("Conv", "xr v", "y2"), node("Add", "y1 y2", "y")]
    path = write(tmp_path, nodes, CONSTANTS | {"v": weights})
    assert in_float(path, tmp_path / "copy")[1] == []


@pytest.mark.parametrize(
    ("place", "changed", "constants", "reason"),
    [
        (2, node("DequantizeLinear", "w8 ws zw", "w", axis=0), {"zw": np.ones(3, np.int8)}, "zero points"),
        (2, node("DequantizeLinear", "w8 ws4", "w", axis=1), {"ws4": np.ones(4, np.float32)}, "another axis"),
        (1, node("DequantizeLinear", "x8 computed z", "xr"), {}, "computed at run time"),
    ],
)
def test_what_cannot_be_read_is_named(
    place: int, changed: onnx.NodeProto, constants: dict[str, Array], reason: str, tmp_path: Path
) -> None:
    path = write(tmp_path, [*QDQ[:place], changed, *QDQ[place + 1 :]], CONSTANTS | constants)
    with pytest.raises(ConfigurationError, match=rf"net\.onnx: .*{reason}"):
        in_float(path, tmp_path / "copy")
