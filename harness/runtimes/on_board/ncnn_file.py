"""An ncnn model as one file: the weights, then the graph and the inputs' shapes as JSON, then the length of
the JSON in eight bytes. ncnn reads the weights from the beginning."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

_LENGTH = 8  # bytes


def packed(weights: bytes, graph: str, shapes: Sequence[Sequence[int]]) -> bytes:
    tail = json.dumps({"graph": graph, "shapes": shapes}).encode()
    return weights + tail + len(tail).to_bytes(_LENGTH, "little")


def read_graph(model: str) -> tuple[str, list[list[int]], int]:
    """The graph, the shapes of the inputs, and how many bytes at the beginning are weights."""
    with Path(model).open("rb") as file:
        end = file.seek(-_LENGTH, os.SEEK_END)
        start = file.seek(end - int.from_bytes(file.read(), "little"))
        tail = json.loads(file.read(end - start))
    return tail["graph"], tail["shapes"], start
