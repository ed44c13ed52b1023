"""The charts of a report's page: they take nothing in a name for markup, and a page without them says why."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from report_rows import emulated, report, row
from test_report_escaping import NAMES, Page

from harness.report.charts import chart
from harness.report.charts.figure import figure
from harness.report.charts.section import section_charts
from harness.report.html import html
from harness.report.result import Report
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
    return "".join(figure(each) for each in section_charts(measured(name).rows))


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


def test_without_the_extra_the_page_has_tables_and_names_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chart, "PACKAGES", ("harness_has_no_such_package",))
    page = html(measured())
    assert page.count("harness[report]") == 1
    assert "<table>" in page
    assert "<script" not in page
