"""`harness finetune`: what it refuses before it builds an engine."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness import cli
from harness.resources import resource

DIGITS = resource("cfg", "digits")


@pytest.fixture(autouse=True)
def _no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    def build_engine(*_: object, **__: object) -> None:
        pytest.fail("an engine was built")

    monkeypatch.setattr("harness.build.engine.build_engine", build_engine)


def refused(
    capsys: pytest.CaptureFixture[str], out: Path, *options: str, cfg: Path = DIGITS / "digits.cfg"
) -> str:
    model = ["--cfg", str(cfg), "--weights", str(DIGITS / "digits.weights")]
    data = ["--dataset", str(DIGITS / "calibration"), "--out", str(out)]
    assert cli.main(["finetune", *model, *data, *options]) == 2
    assert not (out / "digits.weights").exists()
    return capsys.readouterr().err


def test_a_network_in_fp32_has_nothing_to_learn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, tmp_path / "out")
    assert "all layers are in fp32, which loses nothing" in said
    assert "--policy int8" in said


def test_a_layer_that_training_does_not_know_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cfg = tmp_path / "digits.cfg"
    text = (DIGITS / "digits.cfg").read_text()
    cfg.write_text(text.replace("activation=leaky", "activation=gelu", 1))
    said = refused(capsys, tmp_path / "out", "--policy", "int8", cfg=cfg)
    assert "layer 0 (convolutional) cannot be trained: training does not know activation=gelu" in said
    assert f"{cfg.name}:" in said


def test_the_models_own_folder_is_not_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cfg = tmp_path / "digits.cfg"
    shutil.copy(DIGITS / "digits.cfg", cfg)
    assert "holds the model" in refused(capsys, tmp_path, "--policy", "int8", cfg=cfg)


def test_another_epsilon_than_that_of_the_training_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "--bn-epsilon" in refused(capsys, tmp_path / "out", "--policy", "int8", "--bn-epsilon", "1e-6")


def test_without_tensorflow_the_extra_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.training.finetune.find_spec", lambda _: None)
    assert "pip install 'harness[train]'" in refused(capsys, tmp_path / "out", "--policy", "int8")
