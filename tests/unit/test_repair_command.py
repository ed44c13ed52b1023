"""`harness repair`: what it refuses before it builds an engine."""

from __future__ import annotations

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


def refused(capsys: pytest.CaptureFixture[str], out: Path, *options: str) -> str:
    model = ["--cfg", str(DIGITS / "digits.cfg"), "--weights", str(DIGITS / "digits.weights")]
    data = ["--dataset", str(DIGITS / "calibration"), "--out", str(out)]
    assert cli.main(["repair", *model, *data, *options]) == 2
    return capsys.readouterr().err


def test_no_repair_may_be_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ranges = str(DIGITS / "digits.calibration.json")
    for options in (
        ["--only", "bias", "--without", "bias"],
        ["--only", "bias", "--without", "bias", "--calibration", ranges],
    ):
        assert "no repair is left" in refused(capsys, tmp_path / "out", *options)
    for name in ("equalise", "ranges"):
        said = refused(capsys, tmp_path / "out", "--only", name, "bias", "--calibration", ranges)
        assert f"--only {name} has no effect with --calibration" in said
    assert not (tmp_path / "out").exists()


def test_the_model_itself_is_not_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    before = (DIGITS / "digits.weights").read_bytes()
    assert "holds the model, whose files would be replaced" in refused(capsys, DIGITS)
    assert (DIGITS / "digits.weights").read_bytes() == before


def test_ranges_of_another_network_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"format": "mpe-calibration", "version": 1, "network": {"layers": 2}, "tensors": []}')
    assert "was recorded on 2 layers" in refused(capsys, tmp_path / "out", "--calibration", str(other))
