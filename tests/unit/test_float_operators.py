"""Which operators of a TensorFlow Lite file compute in float, and what is refused for them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from exported_models import write_random
from flat_models import FlatOperator, FlatTensor, flat_model

from harness.errors import ConfigurationError
from harness.exporting import tensorflow_files
from harness.exporting.float_operators import float_operators, float_share
from harness.exporting.formats import ExportedModel
from harness.exporting.network import read_network
from harness.exporting.precision_plan import LayerFormat
from harness.importing.tflite_file import parse_flat_model

CONV_2D, DEQUANTIZE, QUANTIZE, ELU = 3, 6, 114, 111
FLOAT32, FLOAT16, INT16, INT8 = 0, 1, 7, 9


def model(first: int, weights: int) -> bytes:
    """A convolution of the types of its input and weights, and an ELU in float32 between two conversions."""
    constant = np.ones((2, 2), np.uint8).tobytes() * {FLOAT32: 4, INT8: 1}[weights]
    tensors = [
        FlatTensor(name="x", type=first),
        FlatTensor(name="w", shape=(2, 2), data=constant, type=weights),
        FlatTensor(name="a", type=first),
        FlatTensor(name="b"),
        FlatTensor(name="c"),
        FlatTensor(name="y", type=first),
    ]
    operators = [
        FlatOperator(code=CONV_2D, inputs=[0, 1, -1], outputs=[2]),
        FlatOperator(code=DEQUANTIZE, inputs=[2], outputs=[3]),
        FlatOperator(code=ELU, inputs=[3], outputs=[4]),
        FlatOperator(code=QUANTIZE, inputs=[4], outputs=[5]),
    ]
    return flat_model(tensors, operators, outputs=(5,))


@pytest.mark.parametrize(
    ("first", "weights", "found"),
    [
        (FLOAT32, FLOAT32, {"CONV_2D": 1, "ELU": 1}),
        (FLOAT32, INT8, {"ELU": 1}),  # multiplies in int8
        (INT8, INT8, {"ELU": 1}),
        (INT16, INT8, {"ELU": 1}),
    ],
)
def test_operators_without_quantised_inputs_compute_in_float(
    first: int, weights: int, found: dict[str, int]
) -> None:
    read = parse_flat_model(model(first, weights), "net.tflite")
    assert float_operators(read) == found
    assert float_share(read) == ("1 ELU" if len(found) == 1 else "everything")


def test_weights_in_float16_are_expanded_by_no_computing_operator() -> None:
    half = FlatTensor(name="w", shape=(2, 2), data=bytes(8), type=FLOAT16)
    operators = [FlatOperator(code=DEQUANTIZE, inputs=[1], outputs=[2])]
    content = flat_model([FlatTensor(name="x"), half, FlatTensor(name="y")], operators, outputs=(2,))
    read = parse_flat_model(content, "net.tflite")
    assert not float_operators(read)
    assert float_share(read) == "nothing"


def test_full_integer_is_refused_where_an_operator_is_in_float(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TensorFlow's converter leaves it so and reports no error."""
    text = "[net]\nchannels=3\nheight=8\nwidth=8\n[convolutional]\nfilters=2\nactivation=elu\n"
    network = read_network(*write_random(tmp_path, text))
    exported = ExportedModel(
        stem="net", network=network, formats=[LayerFormat()], outputs=(), metadata={}, tflite="full-integer"
    )
    with pytest.raises(ConfigurationError, match=r"net: for full-integer, .* has no pictures"):
        tensorflow_files.tflite_files(exported)
    monkeypatch.setattr(tensorflow_files, "_converted", lambda *_: {"model.tflite": model(INT8, INT8)})
    given = replace(exported, pictures=lambda _: None)
    with pytest.raises(ConfigurationError, match="converter has no int8 for ELU") as refused:
        tensorflow_files.tflite_files(given)
    assert "integer-with-float-fallback" in refused.value.hint
    left = replace(given, tflite="integer-with-float-fallback")
    assert tensorflow_files.tflite_files(left)["net.tflite"] == model(INT8, INT8)
