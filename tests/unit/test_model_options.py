"""--model in place of --cfg and --weights."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pytest
from onnx_models import model_of, node

from harness import cli
from harness.commands import predict
from harness.commands.model_options import add_engine, add_model, chosen_cfg, model_files, with_policy
from harness.config.darknet_cfg import read_cfg, sections_of
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


def test_the_engine_refuses_a_policy_that_makes_a_tensorflow_lite_file(tmp_path: Path) -> None:
    cfg, weights = tmp_path / "net.cfg", tmp_path / "net.weights"
    cfg.write_text("[net]\nwidth=8\nheight=8\nchannels=3\n[convolutional]\nfilters=1\n")
    weights.write_bytes(bytes(20 + 4 * 4))
    arguments = parsed("--cfg", str(cfg), "--weights", str(weights), "--policy", "{tflite: float16}")
    with pytest.raises(ConfigurationError, match="makes a TensorFlow Lite file, and this command"):
        chosen_cfg(arguments).__enter__()
    with with_policy(arguments, arguments.policy, tflite=True) as made:
        assert "fp16=1" in made.read_text()


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


def onnx_model(path: Path) -> Path:
    """A classifier of five classes with a picture of 8 x 8 as input."""
    constants = {"w": np.ones((5, 3, 1, 1), np.float32), "b": np.zeros(5, np.float32)}
    nodes = [node("Conv", "x w b", "c"), node("GlobalAveragePool", "c")]
    path.write_bytes(model_of(nodes, (1, 3, 8, 8), constants).SerializeToString())
    return path


def test_options_of_the_import_are_keys_of_the_cfg(tmp_path: Path) -> None:
    words = ["--mean", "104,117,123", "--std", "57.5", "--colors", "bgr", "--fill", "114"]
    words += ["--decoder", "none", "--input-shape", "1,3,6,4"]
    with chosen_cfg(parsed("--model", str(onnx_model(tmp_path / "a.onnx")), *words)) as cfg:
        net = sections_of(cfg.read_text(), str(cfg))[0].options
    assert (net["mean"], net["std"], net["colors"], net["fill"]) == ("104,117,123", "57.5", "bgr", "114")
    assert (net["decoder"], net["height"], net["width"]) == ("none", "6", "4")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--mean", "0"], "Write mean= into [net] of a.cfg."),
        (["--std", "1"], "Write std= into [net] of a.cfg."),
        (["--colors", "rgb"], "Write colors= into [net] of a.cfg."),
        (["--fill", "0"], "Write fill= into [net] of a.cfg."),
        (["--decoder", "none"], "Write decoder= into [net] of a.cfg."),
        (["--input-shape", "1,3,8,8"], "Write channels=, height= and width= into [net] of a.cfg."),
    ],
)
def test_options_of_the_import_are_refused_for_a_cfg(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["eval", "--cfg", "a.cfg", "--weights", "a.weights", *words, "--dataset", "d"]) == 2
    error = capsys.readouterr().err
    assert f"{words[0]} applies to --model, not to --cfg" in error
    assert message in error


def test_a_prediction_takes_no_preprocessing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["predict", "--model", "a.onnx", "--target", "pi4", "--mean", "0"])
    assert "unrecognized arguments: --mean 0" in capsys.readouterr().err
    assert cli.main(["predict", "--calibrate", "a.yaml", "--target", "pi4", "--input-shape", "1,3,8,8"]) == 2
    assert "--input-shape has no effect with --calibrate" in capsys.readouterr().err


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
                predict._ranges(arguments.calibration, cfg, given=False) as calibration,
            ):
                assert calibration is not None
                tensors = json.loads(calibration.read_text())["tensors"]
                assert len(tensors) == len(read_cfg(cfg).layers) + 1


@pytest.mark.data
def test_a_prediction_completes_the_ranges_of_a_model_with_int8_weights_alone(shared_data: Path) -> None:
    arguments = parsed(
        "--model", str(shared_data / "import" / "mlperf-tiny" / "kws_ref_model_float32.tflite")
    )
    with model_files(arguments):
        own = json.loads(arguments.calibration.read_text())
        assert own["tensors"] == []
        assert own["weights"]
        with (
            with_policy(arguments, "int8", ranges=False) as cfg,
            predict._ranges(arguments.calibration, cfg, given=False) as completed,
            predict._ranges(arguments.calibration, cfg, given=True) as given,
        ):
            assert given == arguments.calibration
            assert completed is not None
            document = json.loads(completed.read_text())
            assert document["weights"] == own["weights"]
            assert [row["layer"] for row in document["tensors"]] == list(range(-1, len(read_cfg(cfg).layers)))
