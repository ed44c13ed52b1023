"""The tables of layers on terminals: they fit, and show at a glance which layers take the time."""

from __future__ import annotations

import io

import pytest
from report_rows import emulated, report, row
from rich.console import Console

from harness.report.layers import LayerTime, layers_table, print_report_layers
from harness.report.terminal import fitted, print_table
from harness.runtimes.base import LayerResult

TIMES: list[LayerTime] = [
    (0, "convolutional", "int8", "neon dotprod", "im2col gemm", 3.0),
    (1, "maxpool", "int8", "neon dotprod", "", 0.75),
    (2, "softmax", "fp32", "neon dotprod", "", None),
]


def layer(index: int, ns: int) -> LayerResult:
    return LayerResult(
        index=index,
        type="convolutional",
        precision="int8",
        executed="int8",
        isa="neon",
        algorithm="gemm",
        ns=ns,
        conversion_ns=0,
        bytes=1,
        predicted_ns=2 * ns,
    )


def test_bars_are_as_long_as_the_shares_of_time() -> None:
    table = layers_table("t", "ms", TIMES)
    assert [table.cells(time)[-3:] for time in TIMES] == [
        ["3.00", "80.0", "█" * 12],
        ["0.75", "20.0", "█" * 3],
        ["–", "–", ""],  # noqa: RUF001 - a dash for missing figures
    ]


def test_a_bar_has_eighths_of_characters() -> None:
    times: list[LayerTime] = [
        (0, "a", "", "", "", 96.0),
        (1, "b", "", "", "", 13.0),
        (2, "c", "", "", "", 0.4),
    ]
    table = layers_table("t", "ms", times)
    assert [table.cells(time)[-1] for time in times] == ["█" * 12, "█▋", ""]


def test_an_instruction_set_of_all_layers_is_named_once() -> None:
    table = layers_table("t", "ms", TIMES)
    assert table.common == "instruction set: neon dotprod"
    mixed = layers_table("t", "ms", [*TIMES, (3, "softmax", "fp32", "neon", "", 1.0)])
    assert "instruction set" in [column.heading for column in mixed.columns]
    assert not mixed.common


@pytest.mark.parametrize("width", [80, 60])
def test_the_table_fits_and_says_where_the_other_columns_are(width: int) -> None:
    times: list[LayerTime] = [
        (0, "convolutional", "int8", "neon dotprod i8mm", "winograd, input transformed in tiles", 2000.0),
        (1, "convolutional", "fp32", "neon", "im2col gemm", 1000.0),
    ]
    terminal = Console(width=width, file=io.StringIO())
    print_table(terminal, layers_table("t", "predicted ms", times), "--json")
    assert isinstance(terminal.file, io.StringIO)
    lines = terminal.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert any(line.rstrip().endswith("66.7  " + "█" * 12) for line in lines)
    words = " ".join(" ".join(lines).split())
    assert "Columns that do not fit here: instruction set, algorithm." in words
    assert "--json have all." in words


def test_the_algorithm_says_more_than_the_instruction_set() -> None:
    times: list[LayerTime] = [
        (0, "convolutional", "int8", "avx512_vnni", "winograd", 2.0),
        (1, "route", "int8", "reference", "copy", 1.0),
    ]
    shown, without = fitted(layers_table("t", "ms", times), 72)
    assert "algorithm" in [column.heading for column in shown.columns]
    assert [column.heading for column in without] == ["instruction set"]


def test_emulated_cells_show_their_predicted_times(capsys: pytest.CaptureFixture[str]) -> None:
    layers = [layer(0, 10**9), layer(1, 10**8)]
    print_report_layers(report(row(layers=layers), emulated(layers=layers)))
    measured, predicted = capsys.readouterr().out.split("pi4")
    assert "1,000" in measured
    assert "predicted" in predicted
    assert "2,000" in predicted


def test_without_layers_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_report_layers(report(row()))
    assert capsys.readouterr().out == ""
