"""What TensorFlow's converter is asked for, under policies that mix precisions. The program does not run."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from exported_models import write_random

from harness.config.policy import apply
from harness.config.policy_file import read_policy
from harness.errors import ConfigurationError
from harness.exporting import tensorflow_files
from harness.exporting.formats import ExportedModel
from harness.exporting.network import read_network
from harness.exporting.outputs import outputs_of
from harness.exporting.precision_plan import converted_precisions

LAYER = "[convolutional]\nfilters=2\nsize=1\nactivation={}\n"
NETWORK = "[net]\nchannels=3\nheight=8\nwidth=8\n" + LAYER.format("leaky") + LAYER.format("relu") * 2


def model(folder: Path, policy: str, *, pictures: bool = True) -> ExportedModel:
    cfg, weights = write_random(folder, apply(read_policy(policy), NETWORK))
    network = read_network(cfg, weights)
    return ExportedModel(
        stem="net",
        network=network,
        formats=converted_precisions(network),
        outputs=outputs_of(network, cfg),
        metadata={},
        pictures=(lambda path: np.save(path, np.zeros((1, 3, 8, 8), np.float32))) if pictures else None,
    )


def test_layers_in_fp32_are_left_in_float_by_the_names_of_their_operators(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[object] = []

    def run(_program: Path, kind: str, _model: str, made: str, pictures: str, left: str) -> object:
        found.extend([kind, np.load(pictures).shape, json.loads(Path(left).read_text())])
        (Path(made) / "model.tflite").write_bytes(b"a model")
        return subprocess.CompletedProcess([], 0, "")

    monkeypatch.setattr(tensorflow_files, "run_tensorflow", run)
    monkeypatch.setattr(tensorflow_files, "find_spec", lambda _: True)
    mixed = model(tmp_path, "{default: int8, layers: {first: fp32, last: fp32}}")
    assert tensorflow_files.tflite_files(mixed) == {"net.tflite": b"a model"}
    names = ["convolutional_0/Conv:Conv", "convolutional_0/LeakyRelu:LeakyRelu"]
    names += ["convolutional_2/Conv:Conv", "convolutional_2/Relu:Relu"]
    assert found == ["integer-with-float-fallback", (1, 3, 8, 8), names]
    assert [(each.executed, each.output.precision) for each in mixed.formats] == [
        ("fp32", "fp32"),
        ("int8", "int8"),
        ("fp32", "fp32"),
    ]


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("{default: int8, layers: {first: fp32}}", "layer 1 (convolutional) is int8 with quantize=0"),
        (
            "{default: int8, quantize: 1, layers: {last: fp32}}",
            "layer 2 (convolutional) is fp32 and layer 0 is int8 with quantize=1",
        ),
        ("{default: int8, layers: {last: fp16}}", "layer 2 (convolutional) is fp16 and layer 0 is int8"),
    ],
)
def test_other_mixtures_and_int8_without_pictures_are_refused(
    policy: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        tensorflow_files.tflite_files(model(tmp_path, policy, pictures=False))
    assert message in str(refused.value)
