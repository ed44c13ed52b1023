"""--model in place of --cfg and --weights."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from harness import cli
from harness.commands import predict
from harness.commands.model_options import add_engine, add_model, chosen_cfg, model_files, with_policy
from harness.config.darknet_cfg import read_cfg
from harness.errors import ConfigurationError


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_model(parser)
    add_engine(parser)
    return parser.parse_args(words)


@pytest.mark.data
def test_a_quantised_model_brings_its_calibration(shared_data: Path) -> None:
    model = shared_data / "import" / "mlperf-tiny" / "kws_ref_model.tflite"
    arguments = parsed("--model", str(model))
    with chosen_cfg(arguments) as cfg:
        assert cfg == arguments.cfg
        assert "int8=1" in cfg.read_text()
        assert arguments.weights.exists()
        assert arguments.calibration.exists()
    assert not cfg.exists()


@pytest.mark.data
def test_a_policy_applies_to_an_imported_model(shared_data: Path) -> None:
    model = shared_data / "import" / "mlperf-tiny" / "vww_96_float.tflite"
    with chosen_cfg(parsed("--model", str(model), "--policy", "fp16")) as cfg:
        assert "fp16=1" in cfg.read_text()
    with (
        pytest.raises(ConfigurationError, match="int8 needs recorded ranges"),
        chosen_cfg(parsed("--model", str(model), "--policy", "int8")),
    ):
        pass


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "a model is required"),
        (["--cfg", "a.cfg"], "a model is required"),
        (["--model", "a.onnx", "--cfg", "a.cfg"], "--model takes the place of --cfg and --weights"),
        (["--model", "none.onnx"], "none.onnx: no such file"),
    ],
)
def test_a_command_line_without_one_model_is_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["eval", *words, "--dataset", "d"]) == 2
    assert message in capsys.readouterr().err
    assert cli.main(["predict", *words, "--target", "pi4"]) == 2
    assert ("are required" if "required" in message else message) in capsys.readouterr().err


@pytest.mark.data
def test_a_prediction_takes_all_precisions_of_a_float_model(shared_data: Path) -> None:
    folder = shared_data / "import" / "mlperf-tiny"
    for name, policies in (("vww_96_float", ["fp32", "fp16", "int8"]), ("vww_96_int8", [None])):
        arguments = parsed("--model", str(folder / f"{name}.tflite"))
        with model_files(arguments):
            assert predict._policies(arguments) == policies
            if policies[-1] is None:
                continue
            with (
                with_policy(arguments, "int8", ranges=False) as cfg,
                predict._ranges(arguments, cfg) as calibration,
            ):
                assert calibration is not None
                tensors = json.loads(calibration.read_text())["tensors"]
                assert len(tensors) == len(read_cfg(cfg).layers) + 1
