"""The charts of a report's page: they take nothing in a name for markup, and a page without them says why."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from report_rows import emulated, report, row
from test_report_escaping import NAMES, Page

from harness.measure.result import TimePoint
from harness.report.charts import chart
from harness.report.charts.figure import figure
from harness.report.charts.section import comparisons, details, fronts, steps
from harness.report.details import detailed
from harness.report.html import html
from harness.report.result import Details, Report
from harness.report.table import NOTHING
from harness.runtimes.base import LayerResult
from harness.text import one_paragraph


def specifications(page: str) -> list[Any]:
    found = re.findall(r'<script type="application/json" class="chart">(.*?)</script>', page, re.DOTALL)
    return [json.loads(text) for text in found]


def measured(name: str = "") -> Report:
    """Cells with a name in every place where one can be."""
    return report(
        *(
            row(f"{policy}{name}", model=f"m{name}", runtime=runtime, options=f"o{name}", fps=fps)
            for policy, fps in (("fp32", 50.0), ("int8", 90.0))
            for runtime in ("engine", f"r{name}")
        )
    )


@pytest.fixture
def _drawing() -> None:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")


def drawn(name: str = "") -> str:
    """The figures of cells with a name in every place where one can be."""
    return "".join(
        figure(each) for charts in (fronts, details, comparisons) for each in charts(measured(name).rows)
    )


@pytest.mark.usefixtures("_drawing")
@settings(max_examples=20, deadline=None)
@given(name=NAMES)
def test_names_in_charts_end_no_element_and_are_shown_as_they_are(name: str) -> None:
    shown, plain = drawn(name), drawn("")
    assert Page(shown).tags == Page(plain).tags
    found = specifications(shown)
    assert _keys(found) == _keys(specifications(plain))
    assert json.dumps(one_paragraph(f"m{name}"))[1:-1] in json.dumps(found)


def _keys(value: Any) -> Any:
    if isinstance(value, dict):
        # Altair names data sets by a hash of their values.
        return [(key[:5], _keys(inner)) for key, inner in value.items()]
    return [_keys(inner) for inner in value] if isinstance(value, list) else type(value)


@pytest.mark.usefixtures("_drawing")
def test_a_page_has_the_libraries_once_and_names_no_other_host() -> None:
    page = html(
        report(row(), row("int8", fps=150.0), *(emulated(p, predicted_ms=9.0) for p in ("fp32", "int8")))
    )
    assert page.count("window.vegaEmbed=") == 1
    assert not re.search(r'<[a-z]+ [^<>]*(src|href)="', page.split("<script>")[0])
    assert "default-src 'none'" in page


@pytest.mark.usefixtures("_drawing")
def test_predicted_speeds_are_called_so_in_their_chart() -> None:
    (found,) = specifications(html(report(emulated(predicted_ms=9.0, predicted_fps=111.0))))
    assert "not measured on a board" in found["description"]
    assert "predicted FPS" in str(found)


@pytest.mark.usefixtures("_drawing")
def test_a_sustained_run_has_a_drawing_for_each_known_figure() -> None:
    points = [TimePoint(seconds=30.0 * n, fps=100.0, celsius=40.0 + n) for n in range(1, 9)]
    (chart,) = [each for each in details([row(time_series=points)]) if "sustained" in each.caption]
    assert [drawing["encoding"]["y"]["title"] for drawing in chart.specifications] == ["FPS", "°C"]
    assert chart.rows[0] == ["fp32", "0.50", "100", "41.0"]


@pytest.mark.usefixtures("_drawing")
def test_parts_of_a_sustained_run_in_which_the_board_throttled_are_marked() -> None:
    points = [TimePoint(seconds=30.0 * n, fps=100.0, throttled=n == 3) for n in range(1, 5)]
    (chart,) = [each for each in details([row(time_series=points)]) if "sustained" in each.caption]
    assert chart.caption.endswith("Crosses are where it did.")
    (drawing,) = chart.specifications
    assert [layer["mark"]["type"] for layer in drawing["layer"]] == ["line", "point"]
    assert drawing["layer"][1]["transform"] == [{"filter": "datum.throttled"}]
    assert [cells[-1] for cells in chart.rows] == ["", "", "yes", ""]


@pytest.mark.usefixtures("_drawing")
def test_steps_are_compared_with_the_one_before_that_has_a_speed() -> None:
    series = [("plain", 2.0), ("tiled", 8.0), ("broken", None), ("simd", 6.0)]
    rows = [row(step=name, fps=fps, status="done" if fps else "failed") for name, fps in series]
    (chart,) = steps(rows)
    values = chart.specifications[0]["datasets"]["values"]
    shown = [(value["step"], value["before"], value["times"], value["gain"]) for value in values]
    assert shown == [("plain", 1, 1, "1.00x"), ("tiled", 1, 4, "4.00x"), ("simd", 4, 3, "0.75x")]
    assert [value["change"] for value in values] == ["faster", "faster", "slower"]
    assert "measured" in chart.caption
    assert len(specifications(html(report(*rows)))) == 1
    predicted = [emulated(step=name, predicted_fps=fps) for name, fps in series]
    assert "not measured on a board" in steps(predicted)[0].caption
    assert steps(rows[:1]) == []


@pytest.mark.usefixtures("_drawing")
def test_layers_are_as_wide_as_their_measured_or_predicted_time() -> None:
    layers = [layer(0, ns=2_000_000, predicted_ns=5_000_000), layer(1, ns=1_000_000, predicted_ns=7_000_000)]
    rounds = [[1_000_000, 2_000_000, 3_000_000]]
    shown = Details(layers=layers, rounds=rounds)
    for cell, end in ((row(details=shown), 3.0), (emulated(details=shown, predicted_ms=12.0), 12.0)):
        charts = details([cell])
        values = charts[0].specifications[0]["datasets"]["values"]
        assert [value["end"] for value in values][-1] == end
        assert ("predicted" in charts[0].caption.lower()) == cell.emulated
    (latency,) = [each for each in details([row(details=shown)]) if "round by round" in each.caption]
    assert latency.rows == [["fp32", "1", "1.10", "1.50", "2.00", "2.50", "2.90", "3"]]


@pytest.mark.usefixtures("_drawing")
def test_the_layers_of_predictions_are_drawn_with_what_bounds_them() -> None:
    parts = {
        "predicted_compute_ns": 3_000_000,
        "predicted_activation_ns": 1_000_000,
        "predicted_conversion_ns": 0,
        "predicted_memory_ns": 500_000,
    }
    pooling = layer(1, ns=1, predicted_ns=250_000, type="maxpool")
    shown = Details(layers=[layer(0, ns=1, predicted_ns=4_500_000, **parts), pooling], rounds=[])
    policies = {"fp32": 20.0, "int8": 30.0}
    chart = details([emulated(each, predicted_fps=fps, details=shown) for each, fps in policies.items()])[1]
    assert [each["title"] for each in chart.specifications] == ["fp32", "int8"]
    assert "The largest part bounds the layer." in chart.caption
    first, second = chart.specifications[0]["datasets"]["values"]
    assert (first["bound"], first["compute"], first["conversion"]) == ("compute", 3.0, 0.0)
    assert (second["undivided"], "bound" in second) == (0.25, False)
    assert chart.headings == ["layer", "type", "fp32: ms", "fp32: bound", "int8: ms", "int8: bound"]
    assert chart.rows == [
        ["0", "convolutional", *["4.50 int8", "compute, 67 %"] * 2],
        ["1", "maxpool", *["0.25 int8", NOTHING] * 2],
    ]
    # Neither measured layers nor older predictions have parts.
    older = replace(shown, layers=[replace(pooling, index=0), pooling])
    for cells in (
        [row(each, fps=fps, details=shown) for each, fps in policies.items()],
        [emulated(each, predicted_fps=fps, details=older) for each, fps in policies.items()],
    ):
        (drawing,) = (chart := details(cells)[1]).specifications
        assert "transform" not in drawing
        assert "bound" not in f"{chart.caption} {chart.headings}"


def layer(index: int, **more: Any) -> LayerResult:
    values: dict[str, Any] = {"precision": "int8", "executed": "int8", "isa": "neon", "algorithm": "gemm"}
    values |= {"type": "convolutional", "conversion_ns": 0, "bytes": 1}
    return LayerResult(index=index, **(values | more))


def test_a_large_sweep_has_details_of_a_bounded_number_of_cells() -> None:
    rows = [row(f"p{n}", target=f"t{n % 20}", fps=1.0 + n) for n in range(2000)]
    found = detailed(rows)
    assert len(found) == 48
    assert {rows[index].target for index in found} == {f"t{n}" for n in range(6)}


@pytest.mark.usefixtures("_drawing")
def test_the_page_of_a_sweep_of_two_thousand_cells_has_at_most_three_megabytes() -> None:
    intervals = {f"p{percent}_interval_ms": (9.0, 11.0) for percent in (50, 90, 99)}
    known: dict[str, Any] = {"fps_interval": (90.0, 110.0), "p99_ms": 12.0, "samples": 300, **intervals}
    rows = [
        row(policy, target=f"board-{board}", threads=threads, fps=10.0 + n * threads, **known)
        for board in range(10)
        for n, policy in enumerate(["fp32", *(f"int8-layer-{n}-in-fp32" for n in range(49))])
        for threads in (1, 2, 3, 4)
    ]
    rounds = [[1_000_000 + n for n in range(100)]] * 3
    layers = [layer(n, ns=1_000_000 + n) for n in range(60)]
    for index in detailed(rows):
        rows[index] = replace(rows[index], details=Details(layers=layers, rounds=rounds))
    assert len(rows) == 2000
    assert len(html(report(*rows)).encode()) < 3_000_000


def test_without_the_extra_the_page_has_tables_and_names_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chart, "PACKAGES", ("harness_has_no_such_package",))
    page = html(measured())
    assert page.count("harness[report]") == 1
    assert "<table>" in page
    assert "<script" not in page
