"""Repairs for int8: what equalisation keeps, and what least squares and bias correction reach."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from cfg_executor import Network
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.config.darknet_cfg import parse_cfg
from harness.config.policy import BUILT_IN, apply
from harness.errors import ConfigurationError
from harness.repair.channel_groups import FIXED, ChannelGroups
from harness.repair.equalisation import equalise
from harness.repair.int8_path import cut_behind, cut_ranges, with_weight_steps
from harness.repair.least_squares import fitted, nearest, rounded, second_moments, steps_of
from harness.repair.parameters import Parameters
from harness.repair.reconstruction import Fit, reconstruct
from harness.repair.windows import sampled_windows

HEADER = struct.pack("<iiiq", 0, 2, 5, 0)
NET = "[net]\nname=x\noutputs={out}\nchannels=2\nheight=6\nwidth=6\n"


def convolution(name: str, source: str, *, filters: int = 4, size: int = 1, more: str = "") -> str:
    pad = size // 2
    return (
        f"[convolutional]\nname={name}\nfrom={source}\nfilters={filters}\nsize={size}\nstride=1\n"
        f"pad_top={pad}\npad_left={pad}\npad_bottom={pad}\npad_right={pad}\n{more}\n"
    )


# A residual block, then ShuffleNet's: halves are joined, interleaved and taken apart again.
BLOCKS = (
    NET.format(out="last")
    + convolution("a", "x", size=3, more="activation={first}")
    + convolution("b", "a", size=3, more="groups=4\nactivation=linear")
    + convolution("c", "b", more="activation={second}")
    + "[add]\nname=sum\nfrom=a,c\n"
    + "[route]\nname=both\nfrom=sum,b\n"
    + "[transpose]\nname=mixed\ndims=2,4,36\naxes=1,0,2\nchannels=8\nheight=6\nwidth=6\n"
    + "[slice]\nname=half\naxis=channels\nbegin=4\nend=8\n"
    + convolution("d", "half", more="activation=leaky")
    + "[pool]\nname=pooled\ntype=max\nsize=2\nstride=2\n"
    + convolution("last", "pooled", filters=3, more="activation=linear")
)


def model(folder: Path, text: str, seed: int = 0) -> Parameters:
    """The cfg with random weights of very different channels."""
    rng = np.random.default_rng(seed)
    (folder / "net.cfg").write_text(text)
    count = sum(layer.parameters or 0 for layer in parse_cfg(text, "net.cfg").layers)
    values = rng.standard_normal(count) * 10 ** rng.uniform(-1, 1, count)
    (folder / "net.weights").write_bytes(HEADER + values.astype("<f4").tobytes())
    return Parameters(folder / "net.cfg", folder / "net.weights")


def spans(parameters: Parameters, picture: np.ndarray) -> dict[int, np.ndarray]:
    network = Network(parameters.cfg.text, parameters.data())
    network.run(picture)
    tensors = [tensor.reshape(len(tensor), -1) for tensor in network.tensors.values()]
    return {index - 1: np.ptp(np.pad(rows, ((0, 0), (0, 1))), axis=1) for index, rows in enumerate(tensors)}


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    first=st.sampled_from(["relu", "leaky", "linear", "relu6", "swish"]),
    second=st.sampled_from(["relu", "leaky", "linear", "tanh"]),
)
def test_equalisation_keeps_the_outputs(
    tmp_path_factory: pytest.TempPathFactory, seed: int, first: str, second: str
) -> None:
    text = BLOCKS.format(first=first, second=second)
    parameters = model(tmp_path_factory.mktemp("net"), text, seed)
    picture = np.random.default_rng(seed).standard_normal((2, 6, 6)).astype(np.float32)
    before = Network(text, parameters.data()).run(picture)["last"]
    weights = parameters.values.copy()
    assert equalise(parameters, spans(parameters, picture)) > 0
    assert not np.array_equal(parameters.values, weights)
    after = Network(text, parameters.data()).run(picture)["last"]
    assert np.abs(after - before).max() <= 1e-4 * np.abs(before).max()


def test_equalisation_evens_out_the_ranges_of_a_chain(tmp_path: Path) -> None:
    text = (
        NET.format(out="b")
        + convolution("a", "x", filters=8, more="activation=relu")
        + convolution("b", "a", more="activation=linear")
    )
    parameters = model(tmp_path, text, 3)
    picture = np.random.default_rng(3).standard_normal((2, 6, 6)).astype(np.float32)
    before = spans(parameters, picture)[0]
    equalise(parameters, spans(parameters, picture))
    after = spans(parameters, picture)[0]
    used = before > 0
    assert after[used].max() / after[used].min() < before[used].max() / before[used].min()


def test_channels_that_are_added_share_a_factor_and_outputs_have_none(tmp_path: Path) -> None:
    groups = ChannelGroups(model(tmp_path, BLOCKS.format(first="relu", second="linear")))
    a, b, c, total, both, mixed, half = map(groups.of, range(7))
    assert list(a) == list(c) == list(total)
    assert not set(a) & set(b)
    assert list(both) == [*a, *b]
    assert list(mixed) == [a[0], b[0], a[1], b[1], a[2], b[2], a[3], b[3]]
    assert list(half) == list(mixed[4:])
    assert set(groups.of(9)) == set(groups.of(-1)) == {FIXED}


@pytest.mark.parametrize("word", ["relu6", "swish", "logistic", ""])
def test_no_factor_passes_an_activation_that_it_would_change(tmp_path: Path, word: str) -> None:
    more = f"activation={word}" if word else ""  # Darknet's default is logistic
    text = (
        NET.format(out="b")
        + convolution("a", "x", more=more)
        + convolution("b", "a", more="activation=linear")
    )
    assert set(ChannelGroups(model(tmp_path, text)).of(0)) == {FIXED}


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31), normalised=st.booleans())
def test_folded_numbers_are_read_as_they_were_set(
    tmp_path_factory: pytest.TempPathFactory, seed: int, normalised: bool
) -> None:
    more = "activation=relu\n" + ("batch_normalize=1" if normalised else "")
    parameters = model(
        tmp_path_factory.mktemp("net"), NET.format(out="a") + convolution("a", "x", size=3, more=more), seed
    )
    if normalised:
        parameters.values[8:16] = np.abs(parameters.values[8:16]) + 0.1
        parameters.values[12:16] = np.abs(parameters.values[12:16]) + 0.1
    (layer,) = parameters.convolutions
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal(parameters.weights(layer).shape).astype(np.float32)
    bias = rng.standard_normal(4).astype(np.float32)
    parameters.set_folded(layer, weights, bias)
    again = parameters.folded(layer)
    assert np.allclose(again[0], weights, rtol=1e-5, atol=1e-6)
    assert np.allclose(again[1], bias, rtol=1e-4, atol=1e-3)


def test_a_network_with_connected_layers_is_refused(tmp_path: Path) -> None:
    (tmp_path / "net.cfg").write_text("[net]\nchannels=1\nheight=2\nwidth=2\n[connected]\noutput=2\n")
    (tmp_path / "net.weights").write_bytes(HEADER + bytes(40))
    with pytest.raises(ConfigurationError, match=r"net.cfg:5: layer 0 \(connected\) cannot be repaired"):
        Parameters(tmp_path / "net.cfg", tmp_path / "net.weights")


def samples(seed: int, *, groups: int = 2, count: int = 400, size: int = 9) -> tuple[np.ndarray, ...]:
    """Correlated inputs and weights of some groups."""
    rng = np.random.default_rng(seed)
    inputs = rng.standard_normal((groups, count, 3)) @ rng.standard_normal((groups, 3, size))
    inputs += 0.1 * rng.standard_normal(inputs.shape)
    return inputs, rng.standard_normal((groups, 5, size))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_least_squares_rounds_better_than_to_the_nearest_step(seed: int) -> None:
    inputs, weights = samples(seed)
    steps = steps_of(weights) * 16  # as of four bits
    wanted = inputs @ weights.swapaxes(1, 2)

    def error(found: np.ndarray) -> float:
        return float(np.square(inputs @ found.swapaxes(1, 2) - wanted).mean())

    found = rounded(weights, steps, second_moments(inputs))
    assert np.allclose(found / steps[:, :, None], np.rint(found / steps[:, :, None]))
    assert error(found) < error(nearest(weights, steps))


def test_a_fit_makes_up_for_inputs_that_shrank() -> None:
    inputs, weights = samples(1)
    found = fitted(weights, inputs * 0.8, inputs @ weights.swapaxes(1, 2))
    error = inputs * 0.8 @ found.swapaxes(1, 2) - inputs @ weights.swapaxes(1, 2)
    assert np.abs(error).mean() < 0.1 * np.abs(0.2 * inputs @ weights.swapaxes(1, 2)).mean()


def test_clipping_steps_have_less_error_than_those_of_the_largest_weight() -> None:
    inputs, weights = samples(2)
    weights[:, :, 0], inputs[:, :, 0] = 100, 0  # a weight that clipping may give up
    moments = second_moments(inputs)
    energy = np.diagonal(moments, axis1=1, axis2=2)[:, None, :]

    def loss(steps: np.ndarray) -> np.ndarray:
        return np.asarray((np.square(nearest(weights, steps) - weights) * energy).sum(axis=2))

    plain, clipped = steps_of(weights), steps_of(weights, moments)
    assert (clipped <= plain).all()
    assert (loss(clipped) <= loss(plain)).all()
    assert loss(clipped).sum() < 0.9 * loss(plain).sum()


class FixedPath:
    """The int8 path as a test gives it: the inputs of the first layer."""

    def __init__(self, tensor: np.ndarray) -> None:
        self.tensor = tensor

    def input_of(self, *_: object) -> np.ndarray:
        return self.tensor


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**31), rounding=st.booleans(), groups=st.sampled_from([1, 2]))
def test_bias_correction_makes_the_mean_error_zero(
    tmp_path_factory: pytest.TempPathFactory, seed: int, rounding: bool, groups: int
) -> None:
    more = f"groups={groups}\nactivation=leaky"
    parameters = model(
        tmp_path_factory.mktemp("net"), NET.format(out="a") + convolution("a", "x", size=3, more=more), seed
    )
    (layer,) = parameters.convolutions
    pictures = np.random.default_rng(seed).standard_normal((3, 2, 6, 6)).astype(np.float32)
    stored = pictures + np.float32(0.3)  # as if quantisation moved the mean

    def outputs(tensor: np.ndarray) -> np.ndarray:
        weights, bias = parameters.folded(layer)
        inputs = sampled_windows(parameters, layer, tensor, 256)
        matrices = weights.reshape(groups, 4 // groups, -1)
        return inputs @ matrices.swapaxes(1, 2) + bias.reshape(groups, 1, -1)

    wanted = outputs(pictures)
    fit = Fit(rounding=rounding, clipping=False, bias=True)
    found = reconstruct(FixedPath(stored), parameters, {0: wanted}, pictures, fit)  # type: ignore[arg-type]
    assert np.abs((outputs(stored) - wanted).mean(axis=1)).max() < 1e-4 * np.abs(wanted).max()
    assert len(found[0].steps) == 4
    assert found[0].after < found[0].before


def test_sampled_windows_are_what_the_convolution_reads(tmp_path: Path) -> None:
    more = "groups=2\ndilation=2\nactivation=linear"
    text = NET.format(out="a") + convolution("a", "x", size=3, more=more).replace("stride=1", "stride=2")
    parameters = model(tmp_path, text)
    (layer,) = parameters.convolutions
    picture = np.random.default_rng(5).standard_normal((2, 6, 6)).astype(np.float32)
    weights, bias = parameters.folded(layer)
    windows = sampled_windows(parameters, layer, picture[None], 256)
    found = windows @ weights.reshape(2, 2, -1).swapaxes(1, 2) + bias.reshape(2, 1, -1)
    wanted = Network(text, parameters.data()).run(picture)["a"].reshape(2, 2, -1)
    assert np.allclose(np.sort(found, axis=1), np.sort(wanted.swapaxes(1, 2), axis=1), atol=1e-5)


def test_a_cfg_is_cut_behind_a_layer_with_another_output(tmp_path: Path) -> None:
    parameters = model(tmp_path, BLOCKS.format(first="relu", second="relu"))
    cut = cut_behind(parameters.cfg, 2, output=1)
    (tmp_path / "cut.cfg").write_text(apply(BUILT_IN["int8"], cut))
    (tmp_path / "cut.weights").write_bytes(parameters.data(3))
    again = Parameters(tmp_path / "cut.cfg", tmp_path / "cut.weights")
    assert [layer.index for layer in again.cfg.layers] == [0, 1, 2]
    assert again.cfg.outputs == (1,)


def test_a_calibration_is_cut_with_its_network() -> None:
    whole = {
        "format": "f",
        "network": {"layers": 3},
        "tensors": [{"layer": index} for index in (-1, 0, 1, 2)],
    }
    cut = cut_ranges(with_weight_steps(whole, {0: [0.5], 2: [0.25]}), 1)
    assert cut == {
        "format": "f",
        "tensors": [{"layer": -1}, {"layer": 0}, {"layer": 1}],
        "weights": [{"layer": 0, "scales": [0.5]}],
    }
