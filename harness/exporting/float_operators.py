"""The operators of a TensorFlow Lite file that compute in float: those that a quantisation left."""

from __future__ import annotations

from collections import Counter

from harness.importing.tflite_file import FlatModel, FlatOperator

_INTEGERS = ("int8", "uint8", "int16")  # of quantised tensors
_CONVERSIONS = ("QUANTIZE", "DEQUANTIZE")


def float_operators(model: FlatModel) -> Counter[str]:
    """How many operators of each name have float32 outputs and no quantised input.

    Those with int8 weights and float32 activations, as dynamic range has them, are not among these: they
    multiply in int8.
    """
    return Counter(operator.name for operator in model.operators if _in_float(operator, model))


def _in_float(operator: FlatOperator, model: FlatModel) -> bool:
    given = [model.tensors[place].type for place in operator.inputs if place >= 0]
    made = [model.tensors[place].type for place in operator.outputs]
    integer = any(each in _INTEGERS for each in given)
    return operator.name not in _CONVERSIONS and "float32" in made and not integer


def float_share(model: FlatModel) -> str:
    """The same as text, the most frequent first: everything, nothing, or `11 LEAKY_RELU, 1 CONV_2D`."""
    found = float_operators(model)
    if found and found.total() == sum(operator.name not in _CONVERSIONS for operator in model.operators):
        return "everything"
    return ", ".join(f"{count} {name}" for name, count in found.most_common()) or "nothing"
