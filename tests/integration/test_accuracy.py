"""Accuracy with the real engine on real networks, against Darknet's, OpenCV's and COCO's figures."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from darknet_text import Printed, read_printed

from harness import cli
from harness.accuracy.calibrate import calibrate
from harness.accuracy.evaluate import evaluate
from harness.config.policy import BUILT_IN, apply
from harness.runtimes.engine import EngineOptions, HostEngine

pytestmark = [pytest.mark.data, pytest.mark.engine]

TWO_THREADS = EngineOptions(threads=2)


@dataclass(frozen=True, kw_only=True)
class Net:
    """A COCO detector of the shared material."""

    folder: str
    golden: str  # how its golden files begin
    heads: tuple[int, int]  # layers before the yolo layers
    map50: float
    map: float
    darknet_map50: float

    def files(self, data: Path) -> tuple[Path, Path]:
        """Its cfg and weights."""
        folder = data / "models" / self.folder
        return next(folder.glob("*.cfg")), next(folder.glob("*.weights"))


NETS = [
    pytest.param(
        Net(
            folder="yolo-fastest-1.1",
            golden="yolo-fastest-1.1",
            heads=(120, 129),
            map50=0.3625,
            map=0.1644,
            darknet_map50=0.3303,
        ),
        id="yolo-fastest",
    ),
    pytest.param(
        Net(
            folder="mobilenetv2-yolov3-nano-coco",
            golden="mbv2-yolov3-nano-coco",
            heads=(68, 78),
            map50=0.3794,
            map=0.1714,
            darknet_map50=0.3437,
        ),
        id="mobilenet",
    ),
]

Score = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def fp32_scores() -> dict[str, dict[str, Any]]:
    """The scores of fp32 by network, measured once."""
    return {}


@pytest.fixture
def score(
    shared_data: Path, host_engine: HostEngine, tmp_path: Path, fp32_scores: dict[str, dict[str, Any]]
) -> Score:
    """score(net, policy, calibration) on the 128 pictures, stretched."""

    def run(net: Net, policy: str = "fp32", calibration: Path | None = None) -> dict[str, Any]:
        if policy == "fp32" and net.folder in fp32_scores:
            return fp32_scores[net.folder]
        original, weights = net.files(shared_data)
        cfg = tmp_path / f"{policy}.cfg"
        cfg.write_text(apply(BUILT_IN[policy], original.read_text()))
        result = evaluate(
            host_engine,
            cfg=cfg,
            weights=weights,
            dataset=shared_data / "coco-val128",
            calibration=calibration,
            resize="stretch",
            options=TWO_THREADS,
        )
        if policy == "fp32":
            fp32_scores[net.folder] = result
        return result

    return run


@pytest.mark.parametrize("net", NETS)
def test_fp32_scores_equal_darknets_and_cocos(net: Net, score: Score) -> None:
    result = score(net)
    assert result["images"] == 128
    assert result["boxes"] == 898
    assert result["darknet_map50"] == pytest.approx(net.darknet_map50, abs=0.002)
    assert result["map50"] == pytest.approx(net.map50, abs=0.003)
    assert result["map"] == pytest.approx(net.map, abs=0.003)


@pytest.mark.parametrize("net", NETS)
def test_fp16_loses_at_most_a_tenth_of_a_point(net: Net, score: Score) -> None:
    assert score(net, "fp16")["darknet_map50"] >= score(net)["darknet_map50"] - 0.001


@pytest.mark.parametrize("net", NETS)
def test_int8_on_every_layer_loses_little_with_any_calibration(
    net: Net, score: Score, shared_data: Path, host_engine: HostEngine, tmp_path: Path
) -> None:
    cfg, weights = net.files(shared_data)
    losses = []
    for quarter in range(4):
        ranges = tmp_path / f"{quarter}.json"
        calibrate(
            host_engine,
            cfg=cfg,
            weights=weights,
            dataset=shared_data / "coco-val128",
            limit=32,
            skip=32 * quarter,
            resize="stretch",
        ).write(ranges)
        losses.append(score(net)["darknet_map50"] - score(net, "int8", ranges)["darknet_map50"])
    assert max(losses) <= 0.020, losses
    assert np.mean(losses) <= 0.012, losses


def test_tiny_darknet_ranks_imagenet_as_published(shared_data: Path, host_engine: HostEngine) -> None:
    folder = shared_data / "models" / "tiny-darknet"
    result = evaluate(
        host_engine,
        cfg=folder / "tiny.cfg",
        weights=folder / "tiny.weights",
        dataset=shared_data / "imagenet-250",
        resize="crop",
        options=TWO_THREADS,
    )
    assert result["images"] == 250
    assert result["top1"] == pytest.approx(0.672, abs=0.008)
    assert result["top5"] == pytest.approx(0.900, abs=0.008)


@pytest.mark.parametrize("net", NETS)
def test_head_tensors_equal_opencvs(net: Net, shared_data: Path, host_engine: HostEngine) -> None:
    golden = np.load(shared_data / "golden" / "raw" / f"{net.golden}.dog.npz")
    cfg, weights = net.files(shared_data)
    found = host_engine.forward(cfg, weights, golden["input"], EngineOptions(bn_epsilon=1e-6))
    assert set(found.heads) == set(net.heads)
    for layer in net.heads:
        assert np.abs(found.heads[layer] - golden[f"conv_{layer}"]).max() <= 1e-4


# --- detections as Darknet prints them

PERCENT, PIXELS = 1.0, 2.0

Found = list[dict[str, Any]]


@pytest.fixture
def detect(
    shared_data: Path,
    host_engine: HostEngine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[[Net, str], dict[str, Found]]:
    """`harness detect` on the seven photographs: what was found, by the picture's name."""
    monkeypatch.setattr("harness.runtimes.engine.host_engine", lambda _: host_engine)

    def run(net: Net, resize: str) -> dict[str, Found]:
        cfg, weights = net.files(shared_data)
        options = ["--cfg", str(cfg), "--weights", str(weights), "--resize", resize]
        names = ["--names", str(shared_data / "coco.names")]
        photos = [str(path) for path in sorted((shared_data / "photos").glob("*.jpg"))]
        assert cli.main(["detect", "--json", "--quiet", *options, *names, *photos]) == 0
        images = json.loads(capsys.readouterr().out)["images"]
        return {Path(image["image"]).stem: image["detections"] for image in images}

    return run


def unmatched(printed: Printed, found: Found) -> bool:
    """Takes the detection that a printed line describes out of `found`; True where there is none."""
    for row in found:
        if (
            row["class"] == printed.name
            and abs(100 * row["confidence"] - printed.percent) <= PERCENT
            and all(abs(a - b) <= PIXELS for a, b in zip(row["box"], printed.box, strict=True))
        ):
            found.remove(row)
            return False
    return True


@pytest.mark.parametrize(("resize", "golden"), [("stretch", "resize"), ("letterbox", "letterbox")])
@pytest.mark.parametrize("net", NETS)
def test_detections_equal_darknets(
    net: Net, resize: str, golden: str, detect: Callable[[Net, str], dict[str, Found]], shared_data: Path
) -> None:
    photographs = detect(net, resize)
    assert len(photographs) == 7
    for name, found in photographs.items():
        expected = read_printed(shared_data / "golden" / f"{net.golden}.{name}.alexeyab_{golden}.txt")
        missing = [printed for printed in expected if unmatched(printed, found)]
        assert not missing, f"{name}: {missing} not among {found}"
        assert not found, f"{name}: Darknet does not print {found}"
