"""The table of harness predict --layers."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from harness.prediction.layer_figures import LayerFigures
from harness.report.predicted_layers import predicted_layers
from harness.report.terminal import print_table

LAYERS = [
    LayerFigures(
        index=1000,
        type="convolutional",
        executed="int8",
        isa="neon_dotprod",
        algorithm="interleaved",
        multiply_adds=10**9,
        predicted_ms=123.4,
        bound="conversion",
        multiply_adds_per_second=8.1e9,
        peak_fraction=0.253,
    ),
    LayerFigures(
        index=1001,
        type="maxpool",
        executed="int8",
        isa="neon",
        algorithm="fused",
        multiply_adds=0,
        predicted_ms=0.0,
    ),
]


def shown(width: int, layers: list[LayerFigures]) -> list[str]:
    terminal = Console(width=width, file=io.StringIO())
    print_table(terminal, predicted_layers("t", layers), "--json")
    assert isinstance(terminal.file, io.StringIO)
    return [line.rstrip() for line in terminal.file.getvalue().splitlines()]


def test_eighty_columns_hold_all_but_bars_and_instruction_sets() -> None:
    lines = shown(80, LAYERS)
    assert max(map(len, lines)) <= 80
    assert " 1000  convolutional  int8 interleaved   123    100    8.10  25.3  conversion" in lines
    assert " 1001  maxpool        int8 fused        0.00   0.00       –     –  –" in lines  # noqa: RUF001 - dashes
    assert "  Columns that do not fit here: instruction set. --json have all." in lines


def test_bars_that_do_not_fit_are_not_mentioned() -> None:
    lines = shown(80, LAYERS[:1])
    assert lines[1] == "instruction set: neon_dotprod"
    assert not any("do not fit" in line for line in lines)


@pytest.mark.parametrize("width", [120, 60])
def test_wide_terminals_have_bars_and_narrow_ones_the_bound(width: int) -> None:
    text = "\n".join(shown(width, LAYERS))
    assert ("█" * 12 in text) == (width == 120)
    assert ("neon_dotprod" in text) == (width == 120)
    assert "conversion" in text
