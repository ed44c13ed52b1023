"""Exported models in ONNX Runtime against the engine: their heads, and what they detect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from exported_models import exported, fused, run, write_random
from golden_outputs import golden_cases
from test_imported_models import import_to

from harness.accuracy.agreement import detection_agreement
from harness.accuracy.boxes import Detections
from harness.accuracy.calibrate import calibrate
from harness.accuracy.detector import detect
from harness.accuracy.executor import Executor
from harness.accuracy.model import Model, load_model
from harness.accuracy.reading import DarknetBoxes
from harness.cli import main
from harness.config.darknet_cfg import read_cfg
from harness.config.policy import apply
from harness.config.policy_file import read_policy
from harness.config.random_weights import write_random_weights
from harness.exporting.outputs import Output
from harness.runtimes.engine import Array, EngineOptions, Forward, HostEngine

pytestmark = pytest.mark.engine

Floats = npt.NDArray[np.float32]

RELU_NETWORK, LEAKY_NETWORK = "mobilenetv2-yolov3-nano-coco", "yolo-fastest-1.1"

# Every section of Darknet whose counterpart tests/unit/test_exporting_onnx.py does not have.
DARKNETS = """\
[net]
channels=4
height=12
width=12
[maxpool]
size=3
stride=2
stride_x=1
padding=2
[reorg]
stride=2
[reorg]
stride=2
reverse=1
[convolutional]
filters=8
size=3
stride=2
pad=1
batch_normalize=1
activation=mish
[shortcut]
from=-2
activation=leaky
[dropout]
[upsample]
stride=2
scale=0.5
[shortcut]
from=3,-1
[avgpool]
[convolutional]
filters=8
activation=hard_mish
[scale_channels]
from=7
activation=relu
[convolutional]
filters=1
activation=logistic
[scale_channels]
from=7
scale_wh=1
[route]
layers=-1,10
groups=2
group_id=1
[crop]
crop_height=2
crop_width=3
[convolutional]
filters=14
activation=linear
[yolo]
classes=2
mask=0,1
num=2
anchors=1,1,2,2
[route]
layers=-2
[region]
classes=2
num=2
[route]
layers=-4
[connected]
output=6
activation=tanh
[softmax]
groups=2
temperature=2
[cost]
"""


@dataclass(frozen=True, kw_only=True)
class ExportExecutor:
    """ONNX Runtime in the engine's place."""

    model: bytes
    outputs: Sequence[Output]
    engine: HostEngine  # knows the size of the network

    def images_per_chunk(self, cfg: Path) -> int:
        return self.engine.images_per_chunk(cfg)

    def forward(self, cfg: Path, weights: Path, images: Array, options: EngineOptions) -> Forward:
        found = [run(self.model, np.asarray(image, np.float32)) for image in images]
        return Forward(
            heads={
                output.layer: np.concatenate([each[output.name] for each in found]) for output in self.outputs
            }
        )


def assert_same_heads(
    engine: HostEngine, files: tuple[Path, Path, Path | None], picture: Floats, *, tolerance: float = 1e-3
) -> None:
    """Within a share of the tensor's largest value."""
    cfg, weights, calibration = files
    model, _, outputs = exported(cfg, weights, calibration)
    found = run(model, picture)
    heads = engine.forward(cfg, weights, picture[None], EngineOptions(calibration=calibration)).heads
    assert set(heads) == {output.layer for output in outputs}
    for output in outputs:
        expected = heads[output.layer]
        worst = float(np.abs(found[output.name].reshape(expected.shape) - expected).max())
        assert worst <= tolerance * float(np.abs(expected).max()), output


def random_picture(shape: tuple[int, ...]) -> Floats:
    return np.random.default_rng(2).random(shape, np.float32)


def test_darknets_sections(tmp_path: Path, host_engine: HostEngine) -> None:
    files = write_random(tmp_path, DARKNETS)
    assert_same_heads(host_engine, (*files, None), random_picture((4, 12, 12)), tolerance=1e-5)


@pytest.mark.data
@pytest.mark.parametrize("name", ["yolov4-tiny", "resnet50", "efficientnet-lite3", "yolov2-tiny"])
def test_popular_cfgs(name: str, shared_data: Path, tmp_path: Path, host_engine: HostEngine) -> None:
    cfg, weights = shared_data / "cfgs" / f"{name}.cfg", tmp_path / "random.weights"
    info = host_engine.info(cfg)
    write_random_weights(weights, info["layers"], 1)
    assert_same_heads(host_engine, (cfg, weights, None), random_picture(tuple(info["input"])))


def detector(folder: Path, name: str) -> tuple[Path, Path]:
    (cfg,), (weights,) = ((folder / "models" / name).glob(f"*.{kind}") for kind in ("cfg", "weights"))
    return cfg, weights


@pytest.mark.data
@pytest.mark.parametrize(
    "model",
    [
        "fastestdet/FastestDet.onnx",
        "mlperf-tiny/kws_ref_model.tflite",
        "mobilenet-v1-0.25/mobilenet_v1_0.25_224_quant.tflite",
        "nanodet-m-416/nanodet_m_416.onnx",
        "ssd-mobilenet-v1/coco_ssd_mobilenet_v1_1.0_quant_2018_06_29.tflite",
        "yolox-nano/yolox_nano.onnx",
        "yunet-n/yunet_n_320_320.onnx",
    ],
)
def test_imported_models(model: str, shared_data: Path, tmp_path: Path, host_engine: HostEngine) -> None:
    """Those that were published as int8 too: their layers have the model's own scales."""
    files = import_to(tmp_path, shared_data, model)
    case = next(iter(golden_cases(shared_data / "import", model)))
    assert_same_heads(host_engine, files, np.asarray(case.picture, np.float32))


@pytest.mark.data
@pytest.mark.parametrize("policy", ["fp32", "{default: int8, quantize: 1}"])
def test_an_export_is_imported_again(
    policy: str, shared_data: Path, tmp_path: Path, host_engine: HostEngine
) -> None:
    """cfg to ONNX to cfg: the same bits."""
    cfg, weights = detector(shared_data, "yolo-fastest-1.1")
    words = ["--cfg", str(cfg), "--weights", str(weights), "--policy", policy, "--format", "onnx"]
    assert main(["export", *words, "--out", str(tmp_path), "--quiet"]) == 0
    assert main(["import", str(tmp_path / f"{cfg.stem}.onnx"), "--out", str(tmp_path), "--quiet"]) == 0
    changed = tmp_path / "changed.cfg"
    changed.write_text(apply(read_policy(policy), cfg.read_text()))
    picture = random_picture((1, 3, 320, 320))
    before = host_engine.forward(changed, weights, picture).heads
    again = tmp_path / f"{cfg.stem}.cfg"
    calibration = again.with_suffix(".calibration.json")
    options = EngineOptions(calibration=calibration if calibration.exists() else None)
    after = host_engine.forward(again, again.with_suffix(".weights"), picture, options).heads
    assert len(before) == len(after) == 2
    for head, other in zip(before.values(), after.values(), strict=True):
        np.testing.assert_array_equal(head, other)


def variant(
    folder: Path, shared_data: Path, engine: HostEngine, name: str, policy: str
) -> tuple[Path, Path, Path]:
    """The cfg of a detector under a policy, its weights, and the ranges of eight pictures."""
    cfg, weights = detector(shared_data, name)
    ranges = folder / "ranges.json"
    calibrate(engine, cfg=cfg, weights=weights, dataset=shared_data / "coco-val128", limit=8).write(ranges)
    changed = folder / cfg.name
    changed.write_text(apply(read_policy(policy), cfg.read_text()))
    return changed, weights, ranges


@pytest.mark.data
def test_an_int8_detector_runs_in_integers(
    shared_data: Path, tmp_path: Path, host_engine: HostEngine
) -> None:
    """All convolutions but the heads', which write floats; and all sums and joins between them."""
    cfg, weights, calibration = variant(tmp_path, shared_data, host_engine, RELU_NETWORK, "int8")
    found = fused(exported(cfg, weights, calibration)[0], tmp_path)
    assert (found["QLinearConv"], found["QLinearAdd"], found["QLinearConcat"]) == (57, 10, 2)
    assert (found["Conv"], found["FusedConv"], found["QuantizeLinear"]) == (2, 0, 1)


def random_policy(cfg: Path, seed: int) -> str:
    """A precision for each layer; half of them in int8."""
    rng = np.random.default_rng(seed)
    layers = read_cfg(cfg).weighted
    chosen = rng.choice(["fp32", "fp16", "int8", "int8"], len(layers))
    rules = [f'"{layer.index}": {precision}' for layer, precision in zip(layers, chosen, strict=True)]
    return f"{{default: fp32, layers: {{{', '.join(rules)}}}}}"


@pytest.mark.data
@pytest.mark.parametrize("name", [RELU_NETWORK, LEAKY_NETWORK])
def test_detections_under_a_mixed_policy_are_the_engines(
    name: str, shared_data: Path, tmp_path: Path, host_engine: HostEngine
) -> None:
    """As the engine agrees with its own plain loops: single roundings of sums grow from layer to layer."""
    policy = random_policy(detector(shared_data, name)[0], seed=1)
    cfg, weights, calibration = variant(tmp_path, shared_data, host_engine, name, policy)
    model, _, outputs = exported(cfg, weights, calibration)
    pictures = sorted((shared_data / "coco-val128" / "images").iterdir())[:16]
    options = EngineOptions(calibration=calibration)
    network = load_model(host_engine, cfg, weights)
    expected = detections(host_engine, network, pictures, options)
    onnx = ExportExecutor(model=model, outputs=outputs, engine=host_engine)
    found = detections(onnx, network, pictures, options)
    assert sum(len(each.above(0.25)) for each in expected) > 40
    assert detection_agreement(found, expected) >= 0.95


@pytest.mark.data
@pytest.mark.parametrize("policy", ["int8", "random"])
@pytest.mark.parametrize("name", [RELU_NETWORK, LEAKY_NETWORK])
def test_the_first_layers_store_the_engines_values(
    name: str, policy: str, shared_data: Path, tmp_path: Path, host_engine: HostEngine
) -> None:
    """All but few, of which a sum that lies between two steps is rounded to the other one."""
    policy = random_policy(detector(shared_data, name)[0], seed=1) if policy == "random" else policy
    cfg, weights, calibration = variant(tmp_path, shared_data, host_engine, name, policy)
    cfg.write_text(cfg.read_text().replace("[net]\n", "[net]\noutputs=6\n", 1))
    model, _, (output,) = exported(cfg, weights, calibration)
    picture = random_picture((3, 320, 320))
    options = EngineOptions(calibration=calibration)
    expected = host_engine.forward(cfg, weights, picture[None], options).heads[6]
    wrong = np.abs(run(model, picture)[output.name] - expected) > 1e-4 * np.abs(expected).max()
    assert wrong.mean() < 1e-3


def detections(
    executor: Executor, model: Model, pictures: Sequence[Path], options: EngineOptions
) -> list[Detections]:
    assert isinstance(model.reading, DarknetBoxes)
    found = detect(
        executor,
        model,
        pictures,
        reading=model.reading,
        threshold=0.25,
        rules=model.pictures(None),
        options=options,
    )
    return [each for _, each in found]
