"""How tensors are stored under a policy: the engine's rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exported_models import write_random

from harness.errors import ConfigurationError
from harness.exporting.calibration import read_calibration
from harness.exporting.network import read_network
from harness.exporting.precision_plan import LayerFormat, plan_precisions

NET = "[net]\nchannels=2\nheight=4\nwidth=4\n"
INT8 = "[convolutional]\nfilters=2\nint8=1\nactivation=linear\n"
FP16 = INT8.replace("int8", "fp16")
FP32 = INT8.replace("int8", "fp32")
DEPTHWISE = INT8.replace("filters=2", "filters=2\ngroups=2")


def plan(folder: Path, sections: str, **more: Any) -> tuple[LayerFormat, ...]:
    """With the range 0 to layer + 2 for every tensor, of which the second channel has a tenth."""
    cfg, weights = write_random(folder, NET + sections)
    network = read_network(cfg, weights)
    tensors = [
        {"layer": layer, "min": 0, "max": layer + 2}
        | {"channel_min": [0] * count, "channel_max": [layer + 2, *[(layer + 2) / 10] * (count - 1)]}
        for layer in range(-1, len(network.layers))
        for count in [network.shape_of(layer)[0]]
    ]
    path = folder / "ranges.json"
    document = {"format": "mpe-calibration", "version": 1, "tensors": tensors}
    path.write_text(json.dumps(document | more))
    return plan_precisions(network, read_calibration(path, network))


def stored(formats: tuple[LayerFormat, ...]) -> list[str]:
    return [form.output.precision for form in formats]


def test_int8_is_stored_where_int8_follows(tmp_path: Path) -> None:
    formats = plan(tmp_path, f"{INT8}[maxpool]\nsize=2\n[shortcut]\nfrom=-2\n{INT8}[avgpool]\n")
    assert stored(formats) == ["int8", "int8", "int8", "fp32", "fp32"]
    assert formats[0].converted is not None  # the network's input is float
    assert formats[1].output.grid == formats[0].output.grid  # the pool moves values only
    assert formats[3].converted is None


def test_a_layer_without_weights_keeps_the_widest_precision(tmp_path: Path) -> None:
    sections = f"{INT8}{FP16}[route]\nlayers=-1,-2\n{FP16}[shortcut]\nfrom=0\n{FP32}[softmax]\n"
    assert stored(plan(tmp_path, sections)) == ["fp32", "fp16", "fp32", "fp16", "fp32", "fp32", "fp32"]


def test_inputs_of_a_route_alone_take_its_grid(tmp_path: Path) -> None:
    formats = plan(tmp_path, f"{INT8}{INT8}[maxpool]\nsize=1\n[route]\nlayers=-1,0\n{INT8}")
    grids = [form.output.grid for form in formats[:4]]
    assert grids[1] == grids[2] == grids[3] != grids[0]  # layer 0 is also read by a convolution


def test_depthwise_layers_have_ranges_by_channel(tmp_path: Path) -> None:
    formats = plan(tmp_path, f"{DEPTHWISE}{INT8}{DEPTHWISE}")
    assert formats[0].converted is not None
    assert formats[0].converted.channels is not None
    assert formats[0].output.channels is None
    assert formats[1].output.channels is not None
    np.testing.assert_allclose(formats[1].output.channels.high, [3, 0.3], rtol=1e-6)


def test_published_grids_stay_to_the_end(tmp_path: Path) -> None:
    grids = [{"layer": layer, "scale": 0.5, "zero_point": 3} for layer in (-1, 0, 1)]
    formats = plan(tmp_path, f"{INT8}[avgpool]\n", tensors=grids, weights=[{"layer": 0, "scales": [0.25]}])
    assert stored(formats) == ["int8", "int8"]
    assert formats[0].weight_scales is not None
    assert formats[0].weight_scales.tolist() == [0.25, 0.25]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"tensors": [{"layer": 7, "min": 0, "max": 1}]}, "there is no layer 7"),
        ({"tensors": [{"layer": 0, "min": 2, "max": 1}]}, "layer 0 has a minimum above its maximum"),
        ({"tensors": [{"layer": 0, "min": 0}]}, "'max' is missing"),
        ({"tensors": [{"layer": 0, "min": 0, "max": "x"}]}, "not a calibration file"),
        ({"tensors": [{"layer": 0, "scale": 0, "zero_point": 0}]}, "the scale 0 is not from 1e-18"),
        ({"tensors": [{"layer": 0, "scale": 1, "zero_point": 200}]}, "the zero point 200 is outside"),
        ({"tensors": [5]}, "not a calibration file"),
        ({"weights": [{"layer": 0, "scales": [1, 2, 3]}]}, "layer 0 has not 3 scales of weights"),
        ({"network": {"layers": 9}}, "made for a network with another input size or number of layers"),
    ],
)
def test_a_damaged_calibration_is_refused(more: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=message):
        plan(tmp_path, INT8, **more)
