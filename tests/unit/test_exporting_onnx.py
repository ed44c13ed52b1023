"""Networks as ONNX, run by ONNX Runtime, against plain NumPy."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from cfg_executor import Network as Executor
from exported_models import Floats, exported, fused, operators, run, write_random
from hypothesis import given
from hypothesis import strategies as st

from harness.cli import main
from harness.config.cfg_keys import cfg_keys
from harness.errors import ConfigurationError
from harness.exporting.onnx_kinds import KINDS
from harness.exporting.quantization import (
    ChannelRanges,
    Grid,
    grid_of_channels,
    grid_of_range,
    quantised_weights,
    weight_scales,
)
from harness.resources import resource

NET = "[net]\nname=x\nchannels=4\nheight=6\nwidth=8\noutputs=y\n"
SECTIONS = {
    "abs": "[abs]\n",
    "activation": "[activation]\nactivation=clip\nmin=-0.5\n",
    "add": "[avgpool]\nname=a\nfrom=x\n[add]\nfrom=x,a\nactivation=relu\n",
    "avgpool": "[avgpool]\n",
    "connected": "[connected]\noutput=5\nactivation=tanh\n",
    "constant": "[constant]\nname=c\nchannels=4\nheight=1\nwidth=1\n[mul]\nfrom=x,c\n",
    "convolutional": "[convolutional]\nfilters=6\ngroups=2\nsize_y=3\nsize_x=2\nstride_y=2\nstride_x=1\n"
    "pad_top=1\npad_left=0\npad_bottom=2\npad_right=1\ndilation_y=2\ndilation_x=1\nactivation=leaky\n",
    "deconvolutional": "[deconvolutional]\nfilters=6\ngroups=2\nsize=3\nstride=2\npad_top=1\npad_left=1\n"
    "pad_bottom=1\npad_right=0\noutput_pad_y=1\noutput_pad_x=1\nactivation=swish\n",
    "div": "[activation]\nname=a\nactivation=logistic\n[div]\nfrom=x,a\n",
    "exp": "[exp]\n",
    "input": "[input]\nname=more\nchannels=1\nheight=6\nwidth=8\n[sub]\nfrom=x,more\n",
    "layer_norm": "[layer_norm]\naxes=channels,width\nepsilon=0.01\n",
    "matmul": "[transpose]\nname=t\nfrom=x\ndims=4,6,8\naxes=0,2,1\nchannels=4\nheight=8\nwidth=6\n"
    "[matmul]\nfrom=x,t\n",
    "maximum": "[neg]\nname=a\n[maximum]\nfrom=x,a\n",
    "minimum": "[neg]\nname=a\n[minimum]\nfrom=x,a\n",
    "mul": "[neg]\nname=a\n[mul]\nfrom=x,a,x\n",
    "neg": "[neg]\n",
    "pad": "[pad]\npad_front=1\npad_top=2\npad_left=1\npad_right=3\nmode=constant\nvalue=0.25\n",
    "pad reflect": "[pad]\npad_top=2\npad_right=3\nmode=reflect\n",
    "pool": "[pool]\ntype=max\nsize=3\nstride=2\npad_top=1\npad_left=1\n",
    "pool average": "[pool]\ntype=average\nsize=3\nstride=1\npad_top=1\npad_bottom=1\ncount_padding=1\n",
    "pool wide padding": "[pool]\ntype=average\nsize=2\nstride=2\npad_left=5\ncount_padding=1\n",
    "prelu": "[prelu]\n",
    "reduce": "[reduce]\ntype=l2\naxes=channels,width\n",
    "reduce sum": "[reduce]\ntype=sum\naxes=height\n",
    "reshape": "[reshape]\nchannels=2\nheight=12\nwidth=8\n",
    "resize": "[resize]\nwidth=16\nheight=9\nmode=linear\ncoordinates=half_pixel\n",
    "resize nearest": "[resize]\nwidth=16\nheight=12\nmode=nearest\ncoordinates=asymmetric\nrounding=floor\n",
    "route": "[neg]\nname=a\n[route]\nfrom=x,a,x\naxis=height\n",
    "slice": "[slice]\naxis=width\nbegin=6\nend=-1\nstep=-2\n",
    "softmax": "[softmax]\naxis=height\n",
    "sqrt": "[abs]\nname=a\n[sqrt]\nfrom=a\n",
    "sub": "[neg]\nname=a\n[sub]\nfrom=x,a\nactivation=hard_sigmoid\n",
    "transpose": "[transpose]\ndims=2,2,6,8\naxes=1,0,3,2\nchannels=4\nheight=8\nwidth=6\n",
    "upsample": "[upsample]\nstride=3\n",
}
# Sections without a Darknet counterpart in the executor: tests/integration/test_exporting.py runs them.
DARKNETS = {"cost", "crop", "dropout", "maxpool", "region", "reorg", "scale_channels", "shortcut", "yolo"}
ACTIVATIONS = re.findall(
    r'^(?:SIMPLE_)?ACTIVATION\(\w+, "(\w+)"',
    resource("engine", "src", "model", "activations.def").read_text(),
    re.MULTILINE,
)


def named(sections: str) -> str:
    """The cfg of the sections, of which the last is y; each without a name reads the one before it."""
    parts = [part for part in sections.split("[") if part]
    before, lines = "x", []
    for number, part in enumerate(parts):
        header, _, keys = part.partition("\n")
        name = "y" if number == len(parts) - 1 else re.search(r"name=(\w+)", keys)[1]  # type: ignore[index]
        keys = re.sub(r"name=\w+\n", "", keys)
        inputs = "" if "from=" in keys or header in ("[constant]", "input]") else f"from={before}\n"
        lines.append(f"[{header}\nname={name}\n{inputs}{keys}")
        before = name
    return NET + "".join(lines)


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_computes_what_the_cfg_says(name: str, tmp_path: Path) -> None:
    text = named(SECTIONS[name])
    cfg, weights = write_random(tmp_path, text)
    rng = np.random.default_rng(3)
    x = rng.normal(size=(4, 6, 8)).astype(np.float32)
    more = [rng.normal(size=(1, 6, 8)).astype(np.float32)] if name == "input" else []
    expected = Executor(text, weights.read_bytes()).run(x, *more)["y"]
    found = run(exported(cfg, weights)[0], x, *more)["y"]
    np.testing.assert_allclose(found[0], expected, atol=1e-5 * float(np.abs(expected).max()))


def test_every_section_is_exported() -> None:
    assert {name.partition(" ")[0] for name in SECTIONS} | DARKNETS == set(cfg_keys().layers)
    written_elsewhere = {"constant", "cost", "dropout", "input", "region", "yolo"}
    assert set(KINDS) | written_elsewhere == set(cfg_keys().layers)


@pytest.mark.parametrize("word", ACTIVATIONS)
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_every_activation_is_exported(word: str, precision: str, tmp_path: Path) -> None:
    text = f"{NET}[convolutional]\nname=y\nfrom=x\nfilters=3\nsize=1\n{precision}=1\nactivation={word}\n"
    cfg, weights = write_random(tmp_path, text)
    x = np.linspace(-9, 9, 4 * 6 * 8).astype(np.float32).reshape(4, 6, 8)
    if word == "hard_mish":  # which no imported model has
        plain = Executor(text.replace(word, "linear"), weights.read_bytes()).run(x)["y"]
        bent = np.clip(plain, -2, 0)
        expected = np.asarray(np.maximum(plain, 0) + bent * bent / 2 + bent, np.float32)
    else:
        expected = Executor(text, weights.read_bytes()).run(x)["y"]
    found = run(exported(cfg, weights)[0], x)["y"]
    tolerance = 1e-5 if precision == "fp32" else 5e-3
    np.testing.assert_allclose(found[0], expected, atol=tolerance * float(np.abs(expected).max()))


def test_every_other_value_is_no_slice_with_steps(tmp_path: Path) -> None:
    """ncnn has none."""
    shrinking = "[convolutional]\nfilters=4\nsize=1\nstride=2\nactivation=linear\n"
    text = f"{NET.replace('outputs=y', '')}[slice]\naxis=width\nstep=2\n{shrinking}[shortcut]\nfrom=-2\n"
    found = operators(exported(*write_random(tmp_path, text))[0])
    assert (found["MaxPool"], found["Add"]) == (2, 1)


def test_layers_in_fp16_stay_in_fp16_between_them(tmp_path: Path) -> None:
    """Where all layers with weights are fp16. The first value is cast, and the last."""
    layer = "[convolutional]\nfilters=4\nsize=3\npad=1\nbatch_normalize=1\nfp16=1\nactivation=relu\n"
    cfg, weights = write_random(tmp_path, f"{NET.replace('outputs=y', '')}{layer}{layer}[maxpool]\nsize=2\n")
    assert operators(exported(cfg, weights)[0])["Cast"] == 2


def test_fp16_beside_other_precisions_is_rounded_once(tmp_path: Path) -> None:
    """To half: weights and, behind bias and activation, each tensor. ONNX Runtime on x86 would leave out the
    latter if the convolutions themselves were float16."""
    layer = "[convolutional]\nfilters=16\nsize=1\nactivation=leaky\n"
    text = f"{NET.replace('outputs=y', '')}{layer}fp16=1\n{layer}fp16=1\n[shortcut]\nfrom=-2\n{layer}"
    cfg, weights = write_random(tmp_path, text)
    numbers = np.frombuffer(weights.read_bytes()[20:], "<f4")
    x = np.random.default_rng(3).normal(size=(4, 6, 8)).astype(np.float32)

    def convolved(values: Floats, half: bool) -> Floats:
        nonlocal numbers
        bias, filters = numbers[:16], numbers[16 : 16 * (1 + len(values))].reshape(16, -1)
        numbers = numbers[16 * (1 + len(values)) :]
        filters = filters.astype(np.float16).astype(np.float32) if half else filters
        sums = np.einsum("oc,chw->ohw", filters, values, dtype=np.float32) + bias.reshape(-1, 1, 1)
        found = np.where(sums < 0, sums * np.float32(0.1), sums)
        return in_half(found) if half else found

    def in_half(values: Floats) -> Floats:
        return values.astype(np.float16).astype(np.float32)

    first = convolved(in_half(x), half=True)
    second = convolved(first, half=True)
    expected = convolved(in_half(first + second), half=False)
    found = run(exported(cfg, weights)[0], x)["head_3"][0]
    np.testing.assert_allclose(found, expected, atol=2e-6 * float(np.abs(expected).max()))


def test_a_weight_beyond_fp16_names_its_layer(tmp_path: Path) -> None:
    text = f"{NET}[convolutional]\nname=y\nfilters=3\nfp16=1\nactivation=linear\n"
    cfg, weights = write_random(tmp_path, text)
    data = bytearray(weights.read_bytes())
    data[-4:] = np.float32(7e4).tobytes()
    weights.write_bytes(data)
    with pytest.raises(
        ConfigurationError, match=r"net.cfg:10: layer 0 \(convolutional\) has the weight 7e\+04"
    ):
        exported(cfg, weights)


CHAIN = """\
[net]
channels=4
height=8
width=8
[convolutional]
filters=8
size=3
pad=1
int8=1
activation=relu
[convolutional]
filters=8
groups=8
size=3
pad=1
int8=1
activation=relu6
[convolutional]
filters=8
size=1
int8=1
activation=linear
[shortcut]
from=-3
activation=linear
[maxpool]
size=2
stride=2
[convolutional]
filters=5
size=1
int8=1
activation=linear
"""


def write_calibration(cfg: Path, weights: Path, x: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> Path:
    """The ranges of one input, by the fp32 network in ONNX Runtime."""
    import onnx

    fp32 = cfg.with_name("fp32.cfg")
    fp32.write_text(re.sub("(int8|quantize)=1\n", "", cfg.read_text()))
    content, network, _ = exported(fp32, weights)
    model = onnx.load_from_string(content)
    model.graph.output.extend(info for info in model.graph.value_info)
    tensors = run(model.SerializeToString(), x) | {"input": x[None]}
    tensors[network.layers[-1].tensor] = tensors["head_5"]
    rows = [
        {
            "layer": layer,
            "min": float(value.min()),
            "max": float(value.max()),
            "channel_min": value.min(axis=(0, 2, 3)).tolist(),
            "channel_max": value.max(axis=(0, 2, 3)).tolist(),
        }
        for layer in range(-1, len(network.layers))
        for value in [tensors[network.name_of(layer)]]
    ]
    path = cfg.with_name("ranges.json")
    path.write_text(json.dumps({"format": "mpe-calibration", "version": 1, "tensors": rows}))
    return path


def test_a_chain_of_int8_layers_runs_in_integers(tmp_path: Path) -> None:
    cfg, weights = write_random(tmp_path, CHAIN)
    x = np.random.default_rng(5).uniform(size=(4, 8, 8)).astype(np.float32)
    model, _, _ = exported(cfg, weights, write_calibration(cfg, weights, x))
    found = fused(model, tmp_path)
    # The last convolution writes floats: it is an output.
    assert (found["QLinearConv"], found["QLinearAdd"], found["MaxPool"]) == (3, 1, 1)
    assert (found["Conv"], found["QuantizeLinear"], found["Relu"], found["Clip"]) == (1, 1, 0, 0)
    expected = run(exported(tmp_path / "fp32.cfg", weights)[0], x)["head_5"]
    assert np.abs(run(model, x)["head_5"] - expected).max() < 0.03 * np.abs(expected).max()


@pytest.mark.parametrize("activation", ["linear", "relu6", "leaky", "swish"])
def test_channels_have_ranges_of_their_own(activation: str, tmp_path: Path) -> None:
    """The first layer's channels differ a thousandfold: one step for all would leave the small ones empty."""
    text = CHAIN.replace("[shortcut]\nfrom=-3\nactivation=linear\n", "").replace("relu\n", f"{activation}\n")
    text = text.replace("size=2\nstride=2\n", "size=1\nstride=1\n[maxpool]\nsize=1\nstride=1\n")
    cfg, weights = write_random(tmp_path, text)
    data = np.frombuffer(weights.read_bytes()[20:], "<f4").copy()
    data[8 : 8 + 36] /= 1000
    data[0] /= 1000
    weights.write_bytes(weights.read_bytes()[:20] + data.tobytes())
    x = np.random.default_rng(5).uniform(size=(4, 8, 8)).astype(np.float32)
    model, _, _ = exported(cfg, weights, write_calibration(cfg, weights, x))
    expected = run(exported(tmp_path / "fp32.cfg", weights)[0], x)["head_5"]
    assert np.abs(run(model, x)["head_5"] - expected).max() < 0.04 * np.abs(expected).max()


def test_ranges_of_channels_are_imported_again(tmp_path: Path) -> None:
    cfg, weights = write_random(tmp_path, CHAIN.replace("=relu\n", "=leaky\n").replace("from=-3", "from=-2"))
    x = np.random.default_rng(5).uniform(size=(4, 8, 8)).astype(np.float32)
    calibration = write_calibration(cfg, weights, x)
    (tmp_path / "again.onnx").write_bytes(exported(cfg, weights, calibration)[0])
    assert main(["import", str(tmp_path / "again.onnx"), "--out", str(tmp_path), "--quiet"]) == 0
    tensors = json.loads((tmp_path / "again.calibration.json").read_text())["tensors"]
    grid, _ = grid_of_channels(ranges_of(json.loads(calibration.read_text())["tensors"][1]))
    again, factors = grid_of_channels(ranges_of(next(each for each in tensors if "channel_min" in each)))
    np.testing.assert_array_equal(again.zero_point, grid.zero_point)
    np.testing.assert_allclose(factors, 1, rtol=1e-6)
    assert again.scale == pytest.approx(grid.scale)


def ranges_of(tensor: Mapping[str, Sequence[float]]) -> ChannelRanges:
    low, high = (np.array(tensor[f"channel_{end}"], np.float32) for end in ("min", "max"))
    return ChannelRanges(low=low, high=high)


def test_a_range_at_run_time_needs_no_calibration(tmp_path: Path) -> None:
    cfg, weights = write_random(tmp_path, CHAIN.replace("int8=1\n", "int8=1\nquantize=1\n"))
    model, _, _ = exported(cfg, weights)
    assert operators(model)["ConvInteger"] == operators(model)["DynamicQuantizeLinear"] == 4
    x = np.random.default_rng(5).uniform(size=(4, 8, 8)).astype(np.float32)
    (tmp_path / "fp32.cfg").write_text(CHAIN.replace("int8=1\n", ""))
    expected = run(exported(tmp_path / "fp32.cfg", weights)[0], x)["head_5"]
    assert np.abs(run(model, x)["head_5"] - expected).max() < 0.03 * np.abs(expected).max()


def test_a_missing_range_names_layer_and_command(tmp_path: Path) -> None:
    cfg, weights = write_random(tmp_path, CHAIN)
    with pytest.raises(ConfigurationError) as caught:
        exported(cfg, weights)
    assert "net.cfg:9: layer 0 (convolutional) is int8 with quantize=0" in caught.value.message
    assert "harness calibrate" in caught.value.hint


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ("[convolutional]\nname=y\nactivation=maxout\n", r"net.cfg:9: layer 0 \(convolutional\) has activ"),
        ("[reduce]\nname=y\ntype=median\naxes=width\n", r"net.cfg:9: layer 0 \(reduce\) has type=median"),
        ("[scale_channels]\nname=y\nfrom=x,x\n", r"net.cfg:9: layer 0 \(scale_channels\) needs one layer"),
        ("[reorg]\nname=y\nstride=4\n", r"net.cfg:9: layer 0 \(reorg\) has stride=4, which does not fit"),
        ("[avgpool]\nname=a\n[route]\nname=y\nfrom=x,a\n", "its layers do not fit together: .*Concat"),
    ],
)
def test_what_cannot_be_exported_is_one_error(sections: str, message: str, tmp_path: Path) -> None:
    cfg, weights = write_random(tmp_path, NET + sections)
    with pytest.raises(ConfigurationError, match=message):
        exported(cfg, weights)


def test_grids_are_the_engines() -> None:
    assert grid_of_range(0, 1) == Grid(scale=float(np.float32(1 / 255)), zero_point=-128)
    assert grid_of_range(-1, 1).zero_point == -1  # of two steps as near, by the scale's own rounding
    assert grid_of_range(2, 3) == grid_of_range(0, 3)
    assert grid_of_range(0, 0) == Grid(scale=1.0, zero_point=0)
    weights, bias = np.array([[0.5, -1.27], [0, 0], [1e-9, 0]], np.float32), np.array([0, 0, 8], np.float32)
    scales = weight_scales(weights, bias)
    np.testing.assert_allclose(scales, [0.01, 1, 8 / 65536], rtol=1e-6)
    assert quantised_weights(weights, scales).tolist() == [[50, -127], [0, 0], [0, 0]]


ENDS = st.floats(0, 1e4, width=32)


@given(st.lists(st.tuples(ENDS, ENDS), min_size=1, max_size=8))
def test_channels_lie_on_grids_of_their_own(ranges: list[tuple[float, float]]) -> None:
    low, high = -np.array([a for a, _ in ranges], np.float32), np.array([b for _, b in ranges], np.float32)
    shared, factors = grid_of_channels(ChannelRanges(low=low, high=high))
    zero_points = np.broadcast_to(shared.zero_point, len(ranges))
    for place, ends in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        own = grid_of_range(*ends)
        if ends[0] < ends[1] and own.scale > 1e-8 * shared.scale:
            assert shared.scale * float(factors[place]) == pytest.approx(own.scale, rel=1e-6)
            assert zero_points[place] == own.zero_point
    assert (factors > 0).all()


def test_channels_share_a_zero_point_behind_relu() -> None:
    ranges = ChannelRanges(low=np.zeros(3, np.float32), high=np.array([1, 0, 4], np.float32))
    grid, factors = grid_of_channels(ranges)
    assert grid == grid_of_range(0, 4)
    assert factors.tolist() == [0.25, 1, 1]
