"""The output of `mpe info` for real networks: Darknet's popular cfgs and the models with trained weights."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from harness.errors import ConfigurationError
from harness.runtimes.engine import HostEngine

pytestmark = pytest.mark.engine

# Bytes of the weights files their authors publish, where known, or of the header and parameters that
# Darknet would write; and the number of layers Darknet numbers.
POPULAR = {
    "alexnet": (249513396, 15),
    "darknet19": (83427124, 27),
    "efficientnet-lite3": (30091444, 117),
    "efficientnet_b0": (19560180, 136),
    "enet-coco": (19233100, 146),
    "resnet50": (91303604, 70),
    "tiny": (4185972, 23),
    "vgg-16": (553430196, 26),
    "yolov2-tiny": (44948600, 16),
    "yolov3": (248007048, 107),
    "yolov3-tiny": (35434956, 24),
    "yolov3-tiny-prn": (19759052, 28),
    "yolov4": (257717640, 162),
    "yolov4-tiny": (24251276, 38),
    "yolov7-tiny": (24967560, 99),
}
HEADER_DIFFERENCE = 4  # of the 32-bit count of images seen from the 64-bit one


@pytest.mark.data
@pytest.mark.parametrize("name", POPULAR)
def test_popular_networks_load_without_a_warning(
    name: str, shared_data: Path, host_engine: HostEngine
) -> None:
    network = host_engine.info(shared_data / "cfgs" / f"{name}.cfg")
    assert (network["weights_bytes"], len(network["layers"])) == POPULAR[name]
    assert network["warnings"] == []
    for layer in network["layers"]:
        assert layer["precision"] == "fp32"
        if layer["type"] == "convolutional":
            sum_terms = layer["in"][0] // layer["groups"] * math.prod(layer["size"])
            assert layer["macs"] == math.prod(layer["out"]) * sum_terms


@pytest.mark.data
def test_no_popular_network_is_missed(shared_data: Path) -> None:
    assert {path.stem for path in (shared_data / "cfgs").glob("*.cfg")} == set(POPULAR)


@pytest.mark.data
@pytest.mark.parametrize("name", ["mobilenetv2-yolov3-nano-coco", "tiny-darknet", "yolo-fastest-1.1"])
def test_trained_weights_have_the_size_their_cfg_needs(
    name: str, shared_data: Path, host_engine: HostEngine
) -> None:
    folder = shared_data / "models" / name
    (cfg,) = folder.glob("*.cfg")
    (weights,) = folder.glob("*.weights")
    needed = host_engine.info(cfg)["weights_bytes"]
    assert weights.stat().st_size in (needed, needed - HEADER_DIFFERENCE)


def test_a_cfg_of_another_kind_is_an_error_with_its_line(host_engine: HostEngine, tmp_path: Path) -> None:
    cfg = tmp_path / "net.cfg"
    cfg.write_text("[net]\nwidth=8\nheight=8\nchannels=1\n\n[convolutonal]\nfilters=1\n")
    with pytest.raises(ConfigurationError, match=r"net\.cfg:6: .*\[convolutional\]"):
        host_engine.info(cfg)
