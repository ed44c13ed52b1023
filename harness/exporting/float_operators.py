"""The operators of a TensorFlow Lite file that compute in float: those that a quantisation left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

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


def left_in_float(model: FlatModel) -> Counter[str] | None:
    """The same of a file that computes with integers, too; None if it computes everything in float."""
    found = float_operators(model)
    computing = sum(operator.name not in _CONVERSIONS for operator in model.operators)
    return None if found and found.total() == computing else found


def float_share(model: FlatModel) -> str:
    """The same as text, the most frequent first: everything, nothing, or `11 LEAKY_RELU, 1 CONV_2D`."""
    found = left_in_float(model)
    return "everything" if found is None else listed(found) or "nothing"


def listed(operators: Mapping[str, int]) -> str:
    """Numbers of operators as text, the most frequent first."""
    return ", ".join(f"{count} {name}" for name, count in Counter(operators).most_common())
