"""`harness finetune`: it computes as the engine, to the last bit, and learns to lose less in int8."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from channels_apart import scale_apart

from harness import cli
from harness.accuracy.calibrate import calibrate
from harness.accuracy.dataset import read_pictures
from harness.accuracy.evaluate import evaluate
from harness.accuracy.model import load_model
from harness.accuracy.preprocess import prepare_chunks
from harness.config.darknet_cfg import parse_cfg, read_cfg
from harness.config.policy import apply
from harness.config.policy_file import read_policy
from harness.exporting.calibration import read_calibration
from harness.exporting.network import read_network
from harness.exporting.precision_plan import plan_precisions
from harness.exporting.weights_file import Floats
from harness.repair.parameters import Parameters
from harness.resources import resource
from harness.runtimes.engine import EngineOptions, HostEngine

pytest.importorskip("tensorflow", reason="the train extra is not installed")
pytestmark = [pytest.mark.engine, pytest.mark.train]

DIGITS = resource("cfg", "digits")
HEADER = struct.pack("<iiiq", 0, 2, 5, 0)

# Every kind of layer and activation that training knows, in int8.
EVERYTHING = (
    "[net]\nchannels=3\nheight=24\nwidth=20\n"
    "[convolutional]\nbatch_normalize=1\nfilters=8\nsize=3\nstride=1\npad=1\nactivation=relu6\n"
    "[convolutional]\nbatch_normalize=1\nfilters=8\nsize=3\nstride=2\npad=1\ngroups=8\nactivation=relu6\n"
    "[convolutional]\nfilters=8\nsize=1\nstride=1\nactivation=linear\n"
    "[convolutional]\nfilters=8\nsize=5\nstride=1\npad=1\ngroups=8\nactivation=leaky\n"
    "[convolutional]\nfilters=8\nsize=1\nstride=1\nactivation=swish\n"
    "[shortcut]\nfrom=-3\nactivation=leaky\n"
    "[convolutional]\nfilters=12\nsize=3\nstride=1\npad=1\ndilation=2\ngroups=4\nactivation=mish\n"
    "[route]\nlayers=-1,-2\n"
    "[maxpool]\nsize=3\nstride=1\n"
    "[convolutional]\nfilters=8\nsize=1\nstride=1\nactivation=hard_swish\n"
    "[maxpool]\nsize=2\nstride=2\n"
    "[convolutional]\nfilters=16\nsize=3\nstride=1\npad=1\nactivation=relu\n"
    "[avgpool]\n"
    "[convolutional]\nfilters=16\nsize=1\nstride=1\nactivation=logistic\n"
    "[scale_channels]\nfrom=-3\nactivation=linear\n"
    "[convolutional]\nfilters=8\nsize=1\nstride=1\nactivation=tanh\n"
    "[upsample]\nstride=2\n"
    "[route]\nlayers=-1,9\n"
    "[route]\nlayers=-1\ngroups=2\ngroup_id=1\n"
    "[convolutional]\nfilters=8\nsize=1\nstride=1\nactivation=elu\n"
    "[convolutional]\nname=one\nfilters=8\nsize=3\nstride=1\npad=1\nactivation=hard_mish\n"
    "[convolutional]\nname=other\nfilters=8\nsize=1\nstride=1\nactivation=hard_sigmoid\n"
    "[add]\nname=sum\nfrom=one,other\n"
    "[activation]\nname=bent\nfrom=sum\nactivation=leaky\n"
    "[convolutional]\nfilters=4\nsize=1\nstride=1\nactivation=linear\n"
)

# Those of imported networks besides: values that are moved, interpolated, and computed with one another.
IMPORTED = (
    "[net]\nname=picture\nchannels=3\nheight=24\nwidth=20\noutputs=shares,table\n"
    "[slice]\nname=even\naxis=width\nbegin=0\nstep=2\n"
    "[slice]\nname=odd\nfrom=picture\naxis=width\nbegin=1\nstep=2\n"
    "[route]\nfrom=even,odd\n"
    "[convolutional]\nfilters=8\nsize=3\nstride=1\npad=1\nactivation=relu\n"
    "[pool]\nname=pooled\ntype=max\nsize=3\nstride=2\npad_top=1\npad_left=1\npad_bottom=1\npad_right=1\n"
    "[convolutional]\nname=left\nfrom=pooled\nfilters=8\nsize=1\nactivation=leaky\n"
    "[convolutional]\nname=right\nfrom=pooled\nfilters=8\nsize=3\npad=1\nactivation=swish\n"
    "[route]\nfrom=left,right\n"
    "[transpose]\nname=shuffled\ndims=2,8,60\naxes=1,0,2\nchannels=16\nheight=12\nwidth=5\n"
    "[slice]\nname=first\nbegin=0\nend=8\n"
    "[slice]\nname=last\nfrom=shuffled\nbegin=15\nend=7\nstep=-1\n"
    "[convolutional]\nname=deep\nfrom=first\nfilters=8\nsize=3\nstride=2\npad=1\nactivation=linear\n"
    "[resize]\nname=grown\nheight=12\nwidth=5\nmode=linear\ncoordinates=half_pixel\n"
    "[resize]\nname=copied\nfrom=deep\nheight=12\nwidth=5\n"
    "[add]\nfrom=grown,copied,last\nactivation=relu\n"
    "[convolutional]\nname=base\nfilters=8\nsize=1\nactivation=linear\n"
    "[pool]\nname=mean\ntype=average\nsize=3\nstride=1\npad_top=1\npad_left=1\npad_bottom=1\npad_right=1\n"
    "[avgpool]\nname=all\n"
    "[mul]\nname=product\nfrom=base,all\n"
    "[sub]\nname=difference\nfrom=mean,product\n"
    "[minimum]\nname=low\nfrom=difference,base\n"
    "[maximum]\nfrom=low,mean\n"
    "[constant]\nname=numbers\nchannels=8\nheight=1\nwidth=1\n"
    "[div]\nfrom=-2,numbers\n"
    "[convolutional]\nname=one\nfilters=6\nsize=1\nactivation=linear\n"
    "[convolutional]\nname=other\nfrom=deep\nfilters=6\nsize=1\nactivation=linear\n"
    "[reshape]\nname=flat\nfrom=one\nchannels=6\nheight=1\nwidth=60\n"
    "[reshape]\nname=flatter\nfrom=other\nchannels=6\nheight=1\nwidth=18\n"
    "[route]\nname=joined\nfrom=flat,flatter\naxis=width\n"
    "[transpose]\nname=table\naxes=2,1,0\n"
    "[softmax]\nname=shares\nfrom=one\naxis=channels\n"
)


def random_model(folder: Path, text: str) -> tuple[Path, Path]:
    """Weights of which outputs are about as large as inputs."""
    cfg, weights = folder / "net.cfg", folder / "net.weights"
    cfg.write_text(text)
    rng = np.random.default_rng(3)
    count = sum(layer.parameters or 0 for layer in parse_cfg(text, "net.cfg").layers)
    weights.write_bytes(HEADER + np.abs(rng.standard_normal(count)).astype("<f4").tobytes())
    parameters = Parameters(cfg, weights)
    for layer in parameters.convolutions:
        own = parameters.weights(layer)
        own[:] = rng.standard_normal(own.shape) * 1.5 / np.sqrt(own[0].size)
        parameters.bias(layer)[:] = rng.standard_normal(layer.channels) / 4
    weights.write_bytes(parameters.data())
    return cfg, weights


def pictures_of(engine: HostEngine, cfg: Path, weights: Path, dataset: Path, count: int) -> Floats:
    model = load_model(engine, cfg, weights)
    paths = read_pictures(dataset)[:count]
    chunks = prepare_chunks(paths, model.input, model.pictures("stretch"), count)
    return np.stack([sample.tensor for samples in chunks for sample in samples])


def by_both(
    engine: HostEngine, folder: Path, model: tuple[Path, Path], policy: str, dataset: Path, *, exact: bool
) -> tuple[Mapping[int, Floats], Mapping[int, Floats]]:
    """The outputs of all layers that the heads need, as TensorFlow and as the engine compute them."""
    import tensorflow as tf

    from harness.training.emulation import Emulation
    from harness.training.supported import check_supported
    from harness.training.variables import variables_of

    cfg, weights = folder / "policy.cfg", model[1]
    cfg.write_text(apply(read_policy(policy), read_cfg(model[0]).text))
    recorded = calibrate(engine, cfg=cfg, weights=weights, dataset=dataset, method="mse", limit=4)
    recorded.write(folder / "ranges.json")
    network = read_network(cfg, weights)
    ranges = read_calibration(folder / "ranges.json", network)
    formats = plan_precisions(network, ranges)
    check_supported(network)
    emulation = Emulation(network, formats, variables_of(network, formats, ranges), exact=exact)
    pictures = pictures_of(engine, cfg, weights, dataset, 4)
    options = EngineOptions(calibration=folder / "ranges.json")
    expected = engine.forward(cfg, weights, pictures, options, layers=True).layers
    found = emulation.outputs(tf.constant(pictures.transpose(0, 2, 3, 1)))
    assert {form.output.precision for form in formats} >= {"int8"}
    return {index: each.numpy().transpose(0, 3, 1, 2) for index, each in found.items()}, expected


def assert_same_bits(found: Mapping[int, Floats], expected: Mapping[int, Floats]) -> None:
    assert not differing(found, expected)
    assert len(found) > 20
    assert all(each.std() > 0 for each in found.values())


def differing(found: Mapping[int, Floats], expected: Mapping[int, Floats]) -> list[int]:
    return [index for index, each in found.items() if not np.array_equal(each, expected[index])]


@pytest.mark.parametrize("policy", ["int8", "{default: int8, quantize: 1}"])
def test_every_kind_of_layer_has_the_engines_bits(
    host_engine: HostEngine, tmp_path: Path, policy: str
) -> None:
    model = random_model(tmp_path, EVERYTHING)
    assert_same_bits(*by_both(host_engine, tmp_path, model, policy, DIGITS / "calibration", exact=True))


def test_the_layers_of_imported_networks_have_the_engines_bits(
    host_engine: HostEngine, tmp_path: Path
) -> None:
    model = random_model(tmp_path, IMPORTED)
    found, expected = by_both(host_engine, tmp_path, model, "int8", DIGITS / "calibration", exact=True)
    shares = max(found)
    np.testing.assert_allclose(found[shares], expected[shares], rtol=1e-5)
    assert_same_bits({index: each for index, each in found.items() if index != shares}, expected)


def test_the_shipped_detector_has_the_engines_bits(host_engine: HostEngine, tmp_path: Path) -> None:
    model = DIGITS / "digits.cfg", DIGITS / "digits.weights"
    for exact in (True, False):
        assert_same_bits(*by_both(host_engine, tmp_path, model, "int8", DIGITS / "calibration", exact=exact))


@pytest.mark.data
@pytest.mark.parametrize("name", ["yolo-fastest-1.1", "mobilenetv2-yolov3-nano-coco"])
def test_detectors_with_depthwise_layers_have_the_engines_bits(
    host_engine: HostEngine, tmp_path: Path, shared_data: Path, name: str
) -> None:
    folder = shared_data / "models" / name
    model = next(folder.glob("*.cfg")), next(folder.glob("*.weights"))
    assert_same_bits(*by_both(host_engine, tmp_path, model, "int8", shared_data / "coco-val128", exact=True))


@pytest.mark.data
@pytest.mark.parametrize("file", ["nanodet-m-416/nanodet_m_416", "fastestdet/FastestDet"])
def test_imported_detectors_have_the_engines_bits_up_to_their_last_functions(
    host_engine: HostEngine, tmp_path: Path, shared_data: Path, file: str
) -> None:
    """Sigmoids and softmaxes of the heads are computed in float, to rounding."""
    imported = str(shared_data / "import" / f"{file}.onnx")
    assert cli.main(["import", imported, "--out", str(tmp_path)]) == 0
    model = next(tmp_path.glob("*.cfg")), next(tmp_path.glob("*.weights"))
    found, expected = by_both(host_engine, tmp_path, model, "int8", shared_data / "coco-val128", exact=True)
    ends = differing(found, expected)
    assert min(ends) > max(found) - 30
    for index in ends:
        np.testing.assert_allclose(found[index], expected[index], rtol=1e-4, atol=1e-6)


def difficult(folder: Path) -> Sequence[str]:
    """The shipped detector, which int8 loses: as options."""
    for name in ("digits.cfg", "digits.names"):
        shutil.copy(DIGITS / name, folder)
    parameters = Parameters(DIGITS / "digits.cfg", DIGITS / "digits.weights")
    scale_apart(parameters, 7)
    (folder / "digits.weights").write_bytes(parameters.data())
    return "--cfg", str(folder / "digits.cfg"), "--weights", str(folder / "digits.weights")


def finetuned(capsys: pytest.CaptureFixture[str], out: Path, *words: str) -> dict[str, Any]:
    options = ["--resize", "stretch", "--dataset", str(DIGITS / "calibration"), "--out", str(out), "--json"]
    assert cli.main(["finetune", *words, *options]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_a_few_steps_bring_int8_nearer_to_fp32(
    host_engine: HostEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = difficult(tmp_path)
    steps = ["--epochs", "4", "--batch", "4"]
    trained = finetuned(capsys, tmp_path / "out", *model, "--policy", "int8", *steps)
    assert (trained["images"], trained["held_out"], trained["steps"]) == (26, 6, 28)
    losses = [epoch["held_out_loss"] for epoch in trained["epochs"]]
    assert len(losses) == 5
    assert losses[trained["kept_epoch"]] == min(losses) < 0.9 * losses[0]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *("digits.cfg", "digits.names", "digits.weights", "digits.calibration.json")
    }
    # On pictures of other writers, and as other commands read the files.
    recorded = calibrate(
        host_engine,
        cfg=tmp_path / "digits.cfg",
        weights=tmp_path / "digits.weights",
        dataset=DIGITS / "calibration",
        method="mse",
    )
    recorded.write(tmp_path / "digits.calibration.json")
    before, after = (
        evaluate(
            host_engine,
            cfg=tmp_path / "out" / "digits.cfg",
            weights=folder / "digits.weights",
            dataset=DIGITS / "data",
            resize="stretch",
            calibration=folder / "digits.calibration.json",
            limit=60,
            agreement=True,
            fp32_weights=DIGITS / "digits.weights",
        )
        for folder in (tmp_path, tmp_path / "out")
    )
    assert after["agreement"] > before["agreement"] + 0.04
    assert after["map50"] > before["map50"] + 0.04


def test_without_momentum_a_step_without_gradients_changes_nothing() -> None:
    import tensorflow as tf

    from harness.training.program import forget_momentum

    variable = tf.Variable([1.0, 2.0])
    optimizer = tf.keras.optimizers.Adam(0.1)
    optimizer.apply_gradients([(tf.constant([1.0, -1.0]), variable)])
    moved = variable.numpy()
    forget_momentum(optimizer)
    optimizer.apply_gradients([(tf.zeros(2), variable)])
    np.testing.assert_array_equal(variable.numpy(), moved)
    optimizer.apply_gradients([(tf.constant([1.0, -1.0]), variable)])
    assert np.all(np.abs(variable.numpy() - moved) < 0.1)  # the size of gradients is still known


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_units_follow_the_sizes_of_channels(groups: int) -> None:
    from harness.training.variables import unit_of

    rng = np.random.default_rng(groups)
    weights = rng.standard_normal((6, 6 // groups, 3, 3)).astype(np.float32)
    rows = 2.0 ** rng.uniform(-8, 8, (6, 1, 1, 1))
    columns = 2.0 ** rng.uniform(-8, 8, (groups, 6 // groups))
    columns = np.repeat(columns, 6 // groups, axis=0)[..., None, None]
    scaled = (weights * rows * columns).astype(np.float32)
    np.testing.assert_allclose(unit_of(scaled, groups), unit_of(weights, groups) * rows * columns, rtol=0.02)
    assert 0.2 < np.median(unit_of(weights, groups)) < 2


@pytest.mark.parametrize("family", ["objectness", "shares", "distributions"])
def test_an_error_counts_where_fp32_is_sure_of_an_object(family: str) -> None:
    import tensorflow as tf

    from harness.training.detectors import CellOutputs, Columns
    from harness.training.objective import distillation

    columns = Columns(layer=1, rows=12, begin=5, end=8)
    cells = CellOutputs(
        classes=columns,
        boxes=replace(columns, layer=2, begin=0, end=32 if family == "distributions" else 4),
        objectness=None if family == "distributions" else replace(columns, begin=4, end=5),
        shares=family == "shares",
        distributions=family == "distributions",
    )
    rng = np.random.default_rng(1)
    scores = np.full((2, 3, 4, 8), 0.01, np.float32)  # a map of 12 cells
    scores[:, 1, 1, 4:6] = 0.9  # the cell that holds an object
    boxes = rng.standard_normal((2, 1, 32, 12)).astype(np.float32)  # a table by columns

    def loss(channel: int, cell: int) -> float:
        """With another value of one box."""
        other = boxes.copy()
        other[:, :, channel, cell] += 1
        wanted = {1: tf.constant(scores), 2: tf.constant(boxes)}
        return float(distillation({**wanted, 2: tf.constant(other)}, wanted, (), [cells]))

    assert loss(0, 5) > 0.01
    assert loss(0, 5) > 20 * loss(0, 0) >= 0
    wanted = {1: tf.constant(scores), 2: tf.constant(boxes)}
    assert float(distillation(wanted, wanted, (), [cells])) == pytest.approx(0, abs=1e-6)
    fainter = scores.copy()
    fainter[:, 1, 1, 4:6] = 0.3
    assert float(distillation({**wanted, 1: tf.constant(fainter)}, wanted, (), [cells])) > 0.1
