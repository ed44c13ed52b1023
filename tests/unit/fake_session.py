"""A fake runtime for tests of the program that runs on boards: it adds one to its input.

The model's file is text: a mapping of what the fake does. Its converter copies it.
"""

from __future__ import annotations

import ast
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

try:
    from on_board.tensors import Tensor
except ImportError:  # imported by a test, not by the program
    from harness.runtimes.on_board.tensors import Tensor


def version() -> str:
    return "1.2.3"


def convert(model: str, converted: str) -> None:
    text = Path(model).read_text()
    if not ast.literal_eval(text).get("unreadable"):
        Path(converted).write_text(text)


def quantise(model: str, converted: str, pictures: str, in_float: Sequence[str]) -> None:
    Path(converted).write_text(f"{np.load(pictures).shape} {in_float}")


def load(model: str, *, threads: int, options: Sequence[str] = (), wanted: Sequence[str] = ()) -> Session:
    print("a runtime that prints to standard output", flush=True)
    return Session(ast.literal_eval(Path(model).read_text()), wanted)


class Session:
    def __init__(self, model: dict[str, Any], wanted: Sequence[str]) -> None:
        self.model = model
        shape = tuple(model.get("shape", (1, 3, 4, 5)))
        tensor = Tensor(
            name="in", shape=shape, dtype=np.dtype(model.get("dtype", "float32")), grid=model.get("grid")
        )
        self.inputs = [tensor]
        self.outputs = [tensor._replace(name=name) for name in wanted or ("out",)]

    def resize(self, shapes: Sequence[Sequence[int]]) -> None:
        if self.model.get("raise"):
            raise RuntimeError(self.model["raise"])

    def run(self, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        if self.model.get("abort"):
            os.abort()
        time.sleep(self.model.get("sleep", 0))
        added = np.arange(inputs[0].shape[2])[:, None] if self.model.get("wide") else 1
        return [inputs[0] + added for _ in self.outputs]
