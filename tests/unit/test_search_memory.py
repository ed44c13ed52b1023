"""The model of memory, of a network whose figures are worked out by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.exporting.calibration import read_calibration
from harness.exporting.network import read_network
from harness.search.layer_timer import Timed
from harness.search.memory import MemoryModel, probed_memory
from harness.search.precision_graph import FP16, FP32, INT8, precision_graph

START = """[net]
width=4
height=4
channels=1
[convolutional]
filters=4
size=1
"""
END = """[maxpool]
size=2
stride=2
[convolutional]
filters=2
size=1
"""
# Two branches that meet: 1 and 2 read layer 0, layer 3 adds them, layer 5 reads the pooled sum.
CFG = f"""{START}[convolutional]
filters=4
size=1
[convolutional]
from=0
filters=4
size=1
[add]
from=1,2
{END}"""
# The first layer may pool its own output.
POOLING_CFG = START + END
MAP = 4 * 4 * 4  # values of the first four outputs
POOLED = 4 * 2 * 2
INPUTS = (16, MAP, MAP, 2 * MAP, MAP, POOLED)  # values that each layer reads
OUTPUTS = (MAP, MAP, MAP, MAP, POOLED, 8)
WEIGHTS = np.array([100, 200, 200, 0, 0, 52])  # bytes of fp32
BASE = 1000


def inference(label: int, tensors: int) -> Timed:
    """All layers in one precision. Without ranges, int8 layers convert their inputs and store fp32."""
    works, stored = ((4, 4), (2, 2), (1, 4))[label]
    moved = []
    for index, (read, written, weights) in enumerate(zip(INPUTS, OUTPUTS, WEIGHTS.tolist(), strict=True)):
        arrives = stored if index else 4
        converted = 2 * read * works if weights and arrives != works else 0
        moved.append(read * arrives + converted + written * stored + weights * works // 4)
    return Timed(
        milliseconds=1.0,
        layers=np.ones(6),
        memory_bytes=BASE + tensors + int(WEIGHTS.sum()) * works // 4,
        algorithms=["gemm"] * 6,
        moved=moved,
    )


def probed(folder: Path, cfg: str, parameters: int, probes: list[Timed]) -> MemoryModel:
    """The model of a network with `parameters` weights and biases, and without ranges."""
    (folder / "net.cfg").write_text(cfg)
    (folder / "net.weights").write_bytes(bytes(16 + 4 * parameters))
    (folder / "ranges.json").write_text('{"format": "mpe-calibration", "version": 1, "tensors": []}')
    network = read_network(folder / "net.cfg", folder / "net.weights")
    graph = precision_graph(network, read_calibration(folder / "ranges.json", network))
    labels = np.repeat(np.array([[FP32], [FP16], [INT8]], np.int8), len(graph.weighted), axis=1)
    return probed_memory(network, graph, labels, probes)


def model_of(folder: Path) -> MemoryModel:
    probes = [inference(FP32, 12 * MAP), inference(FP16, 6 * MAP), inference(INT8, 9 * MAP)]
    return probed(folder, CFG, 8 + 20 + 20 + 10, probes)


def test_weights_are_what_layers_move_beside_tensors(tmp_path: Path) -> None:
    weights = model_of(tmp_path).weights
    assert weights[:, FP32].tolist() == WEIGHTS.tolist()
    assert weights[:, FP16].tolist() == (WEIGHTS / 2).tolist()
    assert weights[:, INT8].tolist() == (WEIGHTS / 4).tolist()


@pytest.mark.parametrize(
    ("assignment", "tensors"),
    [
        # Layers 0, 1 and 2 at the same time; the sum may take the place of one of them.
        ([FP32, FP32, FP32, FP32], 3 * 4 * MAP),
        ([FP16, FP16, FP16, FP16], 3 * 2 * MAP),
        # Layer 2 reads a copy in int8 and not layer 0's fp32 any more; both branches are stored as fp32.
        ([INT8, INT8, INT8, INT8], 2 * 4 * MAP + MAP),
        # While layer 0's output is converted to fp16 for layer 2, both exist.
        ([FP32, FP32, FP16, FP32], 2 * 4 * MAP + 2 * MAP),
    ],
)
def test_memory_is_that_of_the_largest_moment(tmp_path: Path, assignment: list[int], tensors: int) -> None:
    model = model_of(tmp_path)
    labels = np.array([assignment], np.int8)
    weights = model.weights[list(model.graph.weighted), assignment].sum()
    assert model.bytes(labels)[0] - model.base - weights == tensors


def test_the_base_is_what_inferences_need_beyond_the_sums(tmp_path: Path) -> None:
    assert model_of(tmp_path).base == BASE


@pytest.mark.parametrize(
    ("assignment", "tensors"),
    [
        ([FP32, FP32], 4 * (MAP + POOLED)),  # the whole output, and the pooled one
        ([FP32, INT8], 4 * (MAP + POOLED)),
        ([FP16, FP16], 2 * (MAP + POOLED)),
        # While what layer 0 pooled is converted to int8 for layer 2, both exist.
        ([INT8, INT8], 4 * POOLED + 16),
        ([INT8, FP32], 4 * (POOLED + 8)),
    ],
)
def test_what_a_layer_pools_itself_is_never_stored(
    tmp_path: Path, assignment: list[int], tensors: int
) -> None:
    """Layer 0 pools its output where it runs in int8."""
    probes = [
        Timed(
            milliseconds=1.0,
            layers=np.ones(3),
            memory_bytes=0,
            algorithms=["gemm", "fused" if label == INT8 else "maxpool", "gemm"],
            moved=[0, 0, 0],
        )
        for label in (FP32, FP16, INT8)
    ]
    model = probed(tmp_path, POOLING_CFG, 8 + 10, probes)
    assert model.bytes(np.array([assignment], np.int8))[0] - model.base == tensors
