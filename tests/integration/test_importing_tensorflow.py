"""What TensorFlow's converter makes of layers computes the same after its import as in TensorFlow."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx_models import kinds, run_imported

from harness.config.darknet_cfg import PRECISION_KEYS
from harness.importing.model import ImportedModel, import_model

pytestmark = [
    pytest.mark.train,
    pytest.mark.filterwarnings("ignore"),  # TensorFlow's own
]


class _TensorFlow:
    """TensorFlow, imported when a test needs it: that takes seconds."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("tensorflow"), name)


tf: Any = _TensorFlow()

Array = npt.NDArray[Any]
SHAPE = (1, 12, 10, 4)
RANDOM = np.random.default_rng(0)


def constant(*shape: int) -> Any:
    return tf.constant(RANDOM.normal(size=shape).astype(np.float32))


def conv(
    x: Any, size: int = 3, filters: int = 8, stride: int = 1, padding: str = "SAME", spread: int = 1
) -> Any:
    weights = constant(size, size, x.shape[-1], filters)
    return tf.nn.conv2d(x, weights, stride, padding, dilations=spread)


def squeeze_excite(x: Any) -> Any:
    y = conv(x)
    gate = tf.nn.relu(conv(tf.reduce_mean(y, [1, 2], keepdims=True), 1, 3))
    return conv(y * tf.sigmoid(conv(gate, 1, 8)))


def split_and_join(x: Any) -> Any:
    a, b = tf.split(conv(x), 2, -1)
    return conv(tf.concat([conv(a, 1, 4), b, a], -1), 1)


def shuffle(x: Any) -> Any:
    y = tf.transpose(tf.reshape(conv(x), [1, 12, 10, 2, 4]), [0, 1, 2, 4, 3])
    return conv(tf.reshape(y, [1, 12, 10, 8]))


def two_heads(x: Any) -> Any:
    a = tf.reshape(conv(x, 3, 12), [1, -1, 6])
    b = tf.reshape(conv(x, 3, 12, 2), [1, -1, 6])
    return tf.concat([a, b], 1)


def rows_of_pixels(x: Any) -> Any:
    y = tf.reshape(conv(x), [1, 120, 8])
    return tf.nn.relu(tf.einsum("bij,jk->bik", y, constant(8, 7)) + constant(7))


def attention(x: Any) -> Any:
    y = tf.transpose(tf.reshape(conv(x, 1, 24), [1, 120, 3, 2, 4]), [2, 0, 3, 1, 4])
    query, key, value = tf.unstack(y)
    share = tf.nn.softmax(tf.matmul(query, key, transpose_b=True) * 0.5)
    found = tf.transpose(tf.matmul(share, value), [0, 2, 1, 3])
    return conv(tf.reshape(found, [1, 12, 10, 8]), 1)


def layer_norm(x: Any) -> Any:
    y = conv(x)
    centred = y - tf.reduce_mean(y, -1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centred), -1, keepdims=True)
    return centred * tf.math.rsqrt(variance + 1e-3) * constant(8) + constant(8)


def focus(x: Any) -> Any:
    return tf.concat([x[:, ::2, ::2], x[:, 1::2, ::2], x[:, ::2, 1::2], x[:, 1::2, 1::2]], -1)


def hard_swish(x: Any) -> Any:
    y = conv(x)
    return y * tf.nn.relu6(y + 3) / 6


def arithmetic(x: Any) -> Any:
    y = conv(x)
    bounded = tf.maximum(tf.minimum(y, constant(8)), -1.0)
    return bounded + tf.abs(y) - tf.exp(-y) * tf.sqrt(tf.abs(y))


def padded(x: Any, mode: str) -> Any:
    return conv(tf.pad(x, [[0, 0], [1, 2], [0, 1], [0, 0]], mode), 3, 8, 1, "VALID")


# Layers, and the sections that they become, where a transposition to channels last is the end of each.
TO_LAST = "transpose"
CASES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "same": (lambda x: conv(x, 3, 6, 2), f"convolutional {TO_LAST}"),
    "relu6": (lambda x: tf.nn.relu6(conv(x) + constant(8)), f"convolutional {TO_LAST}"),
    "dilated": (lambda x: conv(x, 3, 8, 1, "SAME", 2), f"convolutional {TO_LAST}"),
    "dilated_valid": (lambda x: conv(x, 3, 8, 1, "VALID", 3), f"convolutional {TO_LAST}"),
    "depthwise": (
        lambda x: tf.nn.depthwise_conv2d(x, constant(3, 3, 4, 2), [1, 2, 2, 1], "SAME"),
        f"convolutional {TO_LAST}",
    ),
    "transposed": (
        lambda x: tf.nn.conv2d_transpose(conv(x), constant(3, 3, 5, 8), [1, 24, 20, 5], 2, "SAME"),
        f"convolutional deconvolutional {TO_LAST}",
    ),
    "transposed_valid": (
        lambda x: tf.nn.conv2d_transpose(conv(x), constant(4, 4, 5, 8), [1, 26, 22, 5], 2, "VALID"),
        f"convolutional deconvolutional {TO_LAST}",
    ),
    "pools": (
        lambda x: tf.concat([tf.nn.max_pool2d(x, 3, 2, "SAME"), tf.nn.avg_pool2d(x, 3, 2, "SAME")], -1),
        f"pool pool route {TO_LAST}",
    ),
    "hard_swish": (hard_swish, f"convolutional {TO_LAST}"),
    "silu": (lambda x: tf.nn.silu(conv(x)), f"convolutional {TO_LAST}"),
    "gelu": (lambda x: tf.nn.gelu(conv(x)), f"convolutional {TO_LAST}"),
    "gelu_tanh": (lambda x: tf.nn.gelu(conv(x), approximate=True), f"convolutional activation {TO_LAST}"),
    "leaky": (lambda x: tf.nn.leaky_relu(conv(x), 0.1), f"convolutional {TO_LAST}"),
    "elu": (lambda x: tf.nn.elu(conv(x)), f"convolutional {TO_LAST}"),
    "squeeze_excite": (
        squeeze_excite,
        f"convolutional avgpool convolutional convolutional mul convolutional {TO_LAST}",
    ),
    "residual": (
        lambda x: tf.nn.relu(conv(tf.nn.relu(conv(y := conv(x)))) + y),
        f"convolutional convolutional convolutional add {TO_LAST}",
    ),
    "split_and_join": (
        split_and_join,
        f"convolutional slice slice convolutional route convolutional {TO_LAST}",
    ),
    "shuffle": (shuffle, f"convolutional transpose convolutional {TO_LAST}"),
    "nearest": (lambda x: tf.image.resize(conv(x), [24, 20], "nearest"), f"convolutional upsample {TO_LAST}"),
    "linear": (lambda x: tf.image.resize(conv(x), [17, 23]), f"convolutional resize {TO_LAST}"),
    "corners": (
        lambda x: tf.raw_ops.ResizeBilinear(images=conv(x), size=[17, 23], align_corners=True),
        f"convolutional resize {TO_LAST}",
    ),
    "old_linear": (
        lambda x: tf.raw_ops.ResizeBilinear(images=conv(x), size=[17, 23]),
        f"convolutional resize {TO_LAST}",
    ),
    "depth_to_space": (lambda x: tf.nn.depth_to_space(conv(x), 2), f"convolutional {TO_LAST}"),
    "space_to_depth": (
        lambda x: conv(tf.nn.space_to_depth(x, 2)),
        f"transpose convolutional {TO_LAST}",
    ),
    "head": (
        lambda x: tf.nn.softmax(tf.reshape(conv(x, 3, 12), [1, -1, 6])),
        f"convolutional {TO_LAST} softmax",
    ),
    "two_heads": (two_heads, "convolutional transpose convolutional transpose route"),
    "dense": (
        lambda x: tf.nn.softmax(tf.matmul(tf.reshape(conv(x), [1, -1]), constant(960, 7)) + constant(7)),
        "convolutional connected softmax",
    ),
    "rows_of_pixels": (rows_of_pixels, f"convolutional reshape convolutional {TO_LAST}"),
    "focus": (focus, f"slice slice slice slice slice slice route {TO_LAST}"),
    "reversed": (
        lambda x: conv(x)[:, ::-1, 2:9:3, 1:],
        f"convolutional slice slice slice {TO_LAST}",
    ),
    "shrunk": (lambda x: conv(x)[:, 3] * 2.0, ""),
    "norm": (lambda x: tf.nn.l2_normalize(conv(x), -1), ""),
    "layer_norm": (layer_norm, ""),
    "attention": (attention, ""),
    "pad": (lambda x: padded(x, "CONSTANT"), f"convolutional {TO_LAST}"),
    "mirror_pad": (lambda x: padded(x, "REFLECT"), f"pad convolutional {TO_LAST}"),
    "channel_pad": (
        lambda x: tf.pad(conv(x), [[0, 0], [0, 0], [0, 0], [0, 8]]),
        f"convolutional pad {TO_LAST}",
    ),
    "arithmetic": (arithmetic, ""),
    "largest": (lambda x: tf.reduce_max(conv(x), [1, 2]), "convolutional reduce"),
    "gather": (
        lambda x: tf.gather(conv(x), [3, 1, 0, 7], axis=3),
        f"convolutional slice slice route {TO_LAST}",
    ),
    "tile": (lambda x: tf.tile(conv(x), [1, 2, 1, 2]), f"convolutional route route {TO_LAST}"),
    "stack": (lambda x: tf.stack([y := conv(x), y * 2], 3), ""),
    "picture": (lambda x: tf.nn.softmax(conv(x, 1, 5)), f"convolutional softmax {TO_LAST}"),
}


@pytest.fixture(autouse=True)
def _tensorflow() -> None:
    pytest.importorskip("tensorflow", reason="the train extra is not installed")


def converted(function: Callable[[Any], Any], prepare: Callable[[Any], None] = lambda _: None) -> bytes:
    traced = tf.function(function, input_signature=[tf.TensorSpec(SHAPE, tf.float32)])
    converter = tf.lite.TFLiteConverter.from_concrete_functions([traced.get_concrete_function()], tf.Module())
    prepare(converter)
    content: bytes = converter.convert()
    return content


def by_tensorflow(content: bytes, x: Array) -> list[Array]:
    interpreter = tf.lite.Interpreter(model_content=content)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    return [interpreter.get_tensor(output["index"]) for output in interpreter.get_output_details()]


def imported(content: bytes, folder: Path) -> ImportedModel:
    path = folder / "model.tflite"
    path.write_bytes(content)
    return import_model(path)


@pytest.mark.parametrize("name", CASES)
def test_layers_compute_the_same_after_the_import(name: str, tmp_path: Path) -> None:
    function, sections = CASES[name]
    content = converted(function)
    x = RANDOM.normal(size=SHAPE).astype(np.float32)
    model = imported(content, tmp_path)
    found = run_imported(model, x.transpose(0, 3, 1, 2))
    for ours, theirs in zip(found, by_tensorflow(content, x), strict=True):
        assert ours.shape == theirs.shape
        assert np.abs(ours - theirs).max() <= 2e-5 * np.abs(theirs).max()
    assert sections in ("", " ".join(kinds(model)))


def classifier(x: Any) -> Any:
    y = tf.nn.relu(conv(tf.nn.relu6(conv(x, 3, 16) * 0.1), 3, 16) * 0.1 + constant(16))
    y = tf.nn.silu(conv(y, 1, 16) * 0.2) + y
    return tf.nn.softmax(tf.matmul(tf.reduce_mean(y, [1, 2]), constant(16, 7) * 0.3))


def samples() -> Iterator[list[Array]]:
    for _ in range(8):
        yield [RANDOM.normal(size=SHAPE).astype(np.float32)]


def whole(converter: Any) -> None:
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = samples
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]


def wide(converter: Any) -> None:
    whole(converter)
    mixed = tf.lite.OpsSet.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
    converter.target_spec.supported_ops = [mixed]


def half(converter: Any) -> None:
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.target_spec.supported_types = [tf.float16]


def weights_alone(converter: Any) -> None:
    converter.optimizations = [tf.lite.Optimize.DEFAULT]


@pytest.mark.parametrize(
    ("prepare", "precision", "tolerance"),
    [
        (whole, {"int8": "1", "quantize": "0"}, 0.05),
        (wide, {"int16": "1"}, 0.01),
        (half, {}, 1e-5),
        (weights_alone, {"int8": "1", "quantize": "1"}, 0.05),
    ],
)
def test_quantised_by_tensorflow(
    prepare: Callable[[Any], None], precision: dict[str, str], tolerance: float, tmp_path: Path
) -> None:
    content = converted(classifier, prepare)
    x = RANDOM.normal(size=SHAPE).astype(np.float32)
    model = imported(content, tmp_path)
    (found,) = run_imported(model, x.transpose(0, 3, 1, 2), on_grids=True)
    (expected,) = by_tensorflow(content, x)
    assert np.abs(found - expected).max() <= tolerance
    weighted = [section for section in model.sections.found if section.kind in ("convolutional", "connected")]
    asked = [{key: value for key, value in section.keys if key in PRECISION_KEYS} for section in weighted]
    # Small matrices keep their floats where weights alone are quantised.
    assert precision in asked
    assert prepare is weights_alone or all(keys == precision for keys in asked)
    assert not model.warnings
