"""The list of layers, with their numbers, that models are exported from."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from networks import CLASSIFIER, DETECTOR

from harness.config.darknet_cfg import parse_cfg
from harness.errors import ConfigurationError
from harness.exporting.network import Network, read_network

NORMALISED = """\
[net]
width=4
height=4
channels=2
[convolutional]
batch_normalize=1
filters=3
size=3
pad=1
activation=leaky
[connected]
batch_normalize=1
output=5
activation=relu
"""


def written(folder: Path, cfg: str, values: int, *, version: tuple[int, int, int] = (0, 2, 5)) -> Path:
    """A cfg beside weights 1, 2, 3, ... / 8 and a header of the version's length."""
    (folder / "net.cfg").write_text(cfg)
    seen = struct.pack("<q", 7) if version[0] * 10 + version[1] >= 2 else struct.pack("<i", 7)
    numbers = (np.arange(values, dtype="<f4") + 1) / 8
    (folder / "net.weights").write_bytes(struct.pack("<iii", *version) + seen + numbers.tobytes())
    return folder / "net.cfg"


def read(cfg: Path) -> Network:
    return read_network(cfg, cfg.with_suffix(".weights"))


def parameters(cfg: str) -> int:
    return sum(layer.parameters or 0 for layer in parse_cfg(cfg, "c").layers)


def test_layers_of_a_detector(tmp_path: Path) -> None:
    network = read(written(tmp_path, DETECTOR, parameters(DETECTOR)))
    assert network.input_shape == (3, 32, 32)
    assert network.heads == (5, 11)
    first, depthwise, shortcut = network.layers[0], network.layers[2], network.layers[4]
    assert first.tensor == "convolutional_0"
    weights, bias = first.filters
    assert weights.shape == (8, 3, 3, 3)
    assert bias.tolist() == [(i + 1) / 8 for i in range(8)]
    assert weights.flat[0] == 9 / 8
    assert first.activation == "leaky"
    assert [(axis.taps, axis.stride, axis.before, axis.after) for axis in first.window] == [(3, 1, 1, 1)] * 2
    assert [(axis.taps, axis.stride, axis.before, axis.after) for axis in network.layers[1].window] == [
        (2, 2, 0, 1)
    ] * 2
    assert depthwise.groups == 8
    assert depthwise.filters[0].shape == (8, 1, 3, 3)
    assert shortcut.input_shapes == ((8, 16, 16), (8, 16, 16))
    assert [layer.precision for layer in network.layers if layer.weighted][-2:] == ["int8", "fp16"]
    assert network.layers[8].quantize


def test_layers_that_no_head_needs_are_left_out(tmp_path: Path) -> None:
    network = read(written(tmp_path, DETECTOR, parameters(DETECTOR)))
    assert [layer.index for layer in network.needed()] == [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11]


@pytest.mark.parametrize("version", [(0, 2, 5), (0, 1, 0)])
def test_batch_normalisation_is_folded(tmp_path: Path, version: tuple[int, int, int]) -> None:
    convolution, connected = 3 * (2 * 9 + 4), 5 * (48 + 4)
    network = read(written(tmp_path, NORMALISED, convolution + connected, version=version))
    numbers = (np.arange(convolution + connected) + 1) / 8

    bias, scales, means, variances = numbers[:12].reshape(4, 3)
    factors = scales / np.sqrt(variances + np.float32(1e-5))
    layer = network.layers[0]
    kernel = numbers[12:convolution].reshape(3, 2, 3, 3) * factors.reshape(-1, 1, 1, 1)
    found_kernel, found_bias = layer.filters
    np.testing.assert_allclose(found_kernel, kernel, rtol=1e-6)
    np.testing.assert_allclose(found_bias, bias - means * factors, rtol=1e-6)

    # The statistics of a connected layer come after its weights.
    bias, matrix, scales, means, variances = np.split(
        numbers[convolution:], np.cumsum([5, 5 * 48, 5, 5]).tolist()
    )
    factors = scales / np.sqrt(variances + np.float32(1e-5))
    layer = network.layers[1]
    found_matrix, found_bias = layer.filters
    np.testing.assert_allclose(found_matrix, matrix.reshape(5, 48) * factors.reshape(-1, 1), rtol=1e-6)
    np.testing.assert_allclose(found_bias, bias - means * factors, rtol=1e-6)


def test_connected_weights_of_old_files_lie_transposed(tmp_path: Path) -> None:
    cfg = "[net]\nwidth=2\nheight=1\nchannels=1\n[connected]\noutput=3\nactivation=linear\n"
    (layer,) = read(written(tmp_path, cfg, 9, version=(1001, 0, 0))).layers
    assert (layer.filters[0] * 8).tolist() == [[4, 7], [5, 8], [6, 9]]


@pytest.mark.parametrize(("values", "what"), [(65, "truncated"), (67, "too long")])
def test_weights_of_another_size_are_refused_with_both_sizes(tmp_path: Path, values: int, what: str) -> None:
    cfg = NORMALISED.partition("[connected]")[0]
    with pytest.raises(ConfigurationError) as caught:
        read(written(tmp_path, cfg, values))
    assert what in caught.value.message
    assert f"needs {20 + 4 * 66} bytes" in caught.value.message
    assert f"has {20 + 4 * values}" in caught.value.message


def test_numbers_that_are_not_finite_name_their_layer(tmp_path: Path) -> None:
    cfg = written(tmp_path, NORMALISED.partition("[connected]")[0], 66)
    weights = cfg.with_suffix(".weights")
    data = bytearray(weights.read_bytes())
    data[20 + 4 * 9 : 20 + 4 * 10] = struct.pack("<f", -1)  # a variance
    weights.write_bytes(data)
    with pytest.raises(
        ConfigurationError, match=r"layer 0 \(convolutional\) has a weight that is not finite"
    ):
        read(cfg)


@pytest.mark.parametrize(
    ("written_as", "heads"),
    [
        ("[softmax]\n", (2, 3)),
        ("[softmax]\n[cost]\n", (2, 3)),
        ("[softmax]\naxis=channels\n", (3,)),
        ("[dropout]\n", (2,)),
    ],
)
def test_heads_are_those_of_the_engine(tmp_path: Path, written_as: str, heads: tuple[int, ...]) -> None:
    cfg = CLASSIFIER.replace("[softmax]\n", written_as)
    network = read(written(tmp_path, cfg, parameters(cfg) + 10 * 5))
    assert network.heads == heads


def test_outputs_of_a_cfg_are_its_heads(tmp_path: Path) -> None:
    cfg = "[net]\nwidth=4\nheight=4\noutputs=b,a\n[avgpool]\nname=a\n[maxpool]\nname=b\nfrom=input\n"
    network = read(written(tmp_path, cfg, 0))
    assert network.outputs == (1, 0)
    assert network.heads == (0, 1)
    assert [network.name_of(layer) for layer in (-1, 0, 1)] == ["input", "a", "b"]


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("[conv]\nfilters=3\nantialiasing=1\n", "net.cfg:6: layer 0 (convolutional) has antialiasing="),
        ("[conv]\nfilters=3\ngroups=2\n", "net.cfg:6: layer 0 (convolutional) has groups=2"),
        ("[conv]\nint8=1\nfp16=1\n", "net.cfg:5: layer 0 (convolutional) has fp16 and int8 both 1"),
        ("[conv]\nfilters=0\n", "net.cfg:4: layer 0 (convolutional) makes 0x4x4"),
        ("width=0\n[conv]\n", "net.cfg:1: [net] has the input 3x4x0, which is not a size"),
    ],
)
def test_what_the_engine_refuses_is_refused(tmp_path: Path, section: str, message: str) -> None:
    width = "" if section.startswith("width") else "width=4\n"
    cfg = f"[net]\n{width}height=4\n{section}"
    with pytest.raises(ConfigurationError) as caught:
        read(written(tmp_path, cfg, parameters(cfg)))
    assert message in caught.value.message
