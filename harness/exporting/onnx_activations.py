"""Activations by ONNX operators, spelt as runtimes recognise and fuse them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from harness.exporting.onnx_operation import Operation

_FAR = float(np.finfo(np.float32).max)  # in place of an infinite limit

Activation = Callable[[Operation, str], str]


def activated(o: Operation, x: str, word: str) -> str:
    """The activation of a layer, by its word. Raises ConfigurationError for one that is not known."""
    if word == "linear":
        return x
    function = _ACTIVATIONS.get(word)
    if function is None:
        raise o.layer.error(f"has activation={word}, which cannot be exported", key="activation")
    return function(o, x)


def activation_layer(o: Operation) -> str:
    """The section [activation], whose functions have parameters."""
    (x,) = o.inputs
    section = o.layer.section
    match o.layer.activation:
        case "clip":
            low, high = section.real("min", -_FAR), section.real("max", _FAR)
            return _clip(o, x, low, high)
        case "leaky":
            return o.emit("LeakyRelu", x, alpha=section.real("alpha", 0.1))
        case "elu":
            return o.emit("Elu", x, alpha=section.real("alpha", 1.0))
        case "hard_sigmoid":
            return o.emit(
                "HardSigmoid", x, alpha=section.real("alpha", 1 / 6), beta=section.real("beta", 0.5)
            )
        case word:
            return activated(o, x, word)


def _clip(o: Operation, x: str, low: float, high: float) -> str:
    largest = float(np.finfo(np.float16).max) if o.precision == "fp16" else _FAR
    return o.emit("Clip", x, *(o.numbers(min(max(end, -largest), largest)) for end in (low, high)))


def _swish(o: Operation, x: str) -> str:
    return o.emit("Mul", x, o.emit("Sigmoid", x))


def _mish(o: Operation, x: str) -> str:
    return o.emit("Mul", x, o.emit("Tanh", o.emit("Softplus", x)))


def _hard_mish(o: Operation, x: str) -> str:
    """0 below -2, then x^2 / 2 + x up to 0, then x."""
    bent = _clip(o, x, -2.0, 0.0)
    half_square = o.emit("Mul", o.emit("Mul", bent, bent), o.numbers(0.5))
    return o.emit("Add", o.emit("Relu", x), o.emit("Add", half_square, bent))


def _gelu(o: Operation, x: str) -> str:
    error_function = o.emit("Erf", o.emit("Div", x, o.numbers(math.sqrt(2))))
    return o.emit("Mul", o.emit("Mul", x, o.emit("Add", error_function, o.numbers(1))), o.numbers(0.5))


def _gelu_tanh(o: Operation, x: str) -> str:
    cube = o.emit("Mul", o.emit("Mul", x, x), x)
    inner = o.emit("Add", x, o.emit("Mul", cube, o.numbers(0.044715)))
    bent = o.emit("Tanh", o.emit("Mul", inner, o.numbers(math.sqrt(2 / math.pi))))
    return o.emit("Mul", o.emit("Mul", x, o.emit("Add", bent, o.numbers(1))), o.numbers(0.5))


_ACTIVATIONS: Mapping[str, Activation] = {
    "leaky": lambda o, x: o.emit("LeakyRelu", x, alpha=0.1),
    "relu": lambda o, x: o.emit("Relu", x),
    "relu6": lambda o, x: _clip(o, x, 0.0, 6.0),
    "logistic": lambda o, x: o.emit("Sigmoid", x),
    "tanh": lambda o, x: o.emit("Tanh", x),
    "mish": _mish,
    "swish": _swish,
    "hard_mish": _hard_mish,
    "hard_swish": lambda o, x: o.emit("HardSwish", x),
    "hard_sigmoid": lambda o, x: o.emit("HardSigmoid", x, alpha=1 / 6, beta=0.5),
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "elu": lambda o, x: o.emit("Elu", x, alpha=1.0),
}
