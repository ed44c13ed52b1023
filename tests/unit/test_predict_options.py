"""Options of `harness predict` that would be read and ignored are refused."""

from __future__ import annotations

import pytest

from harness import cli


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--plot drawn.svg", "--plot does nothing without --validate"),
        ("--cfg a.cfg --weights a.weights --target pi4 --profiles kept", "--profiles does nothing without"),
        ("--cfg a.cfg --weights a.weights --target pi4 --results found", "--results does nothing without"),
        ("--calibrate sweep.yaml --target pi4 --threads 4", "--threads does nothing with --calibrate"),
        ("--calibrate sweep.yaml --target pi4 --plot p.svg", "--plot does nothing with --calibrate"),
        ("--validate nets --layers", "--layers does nothing with --validate"),
        ("--validate nets --results found", "--results does nothing with --validate"),
    ],
)
def test_what_would_be_ignored_is_refused(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["predict", *line.split()]) == 2
    assert said in capsys.readouterr().err
