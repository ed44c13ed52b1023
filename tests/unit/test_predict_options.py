"""`harness predict` refuses options that would have no effect."""

from __future__ import annotations

import pytest

from harness import cli


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--cfg a.cfg --weights a.weights --target pi4 --results found", "--results has no effect without"),
        ("--calibrate sweep.yaml --target pi4 --threads 4", "--threads has no effect with --calibrate"),
        ("--calibrate sweep.yaml --target pi4 --layers", "--layers has no effect with --calibrate"),
    ],
)
def test_options_without_effect_are_refused(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["predict", *line.split()]) == 2
    assert said in capsys.readouterr().err
