"""The page of sensitivities: the answer, every figure of the tables, and names that are no markup."""

from __future__ import annotations

from typing import Any

import pytest
from found_sensitivity import LAYERS, found_sensitivity
from hypothesis import given, settings
from test_charts import specifications
from test_report_escaping import NAMES, Page

from harness.report.charts import chart
from harness.report.sensitivity import sensitivity_tables
from harness.report.sensitivity_page import answer, sensitivity_page
from harness.text import one_paragraph


@pytest.fixture
def _drawing() -> None:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")


def values(specification: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = specification["datasets"]["values"]
    return found


def test_the_answer_names_the_layers_that_lose_most_and_what_all_lose() -> None:
    assert answer(found_sensitivity()) == (
        "Of single layers in int8, these lose most similarity to fp32: layer49 (50.00 %), layer48 (49.00 %), "
        "layer47 (48.00 %). All layers in int8 lose 60.00 % (-6.00 points of mAP@0.5). With 3 of them raised "
        "to fp16 it is 10.00 % (-1.00 points of mAP@0.5)."
    )
    assert answer(found_sensitivity(labels=False, path=False)).endswith("All layers in int8 lose 60.00 %.")


@pytest.mark.usefixtures("_drawing")
def test_the_layers_that_lose_most_are_drawn_first_with_every_figure() -> None:
    losses, path = specifications(sensitivity_page(found_sensitivity(), "digits"))
    layers = [value["layer"] for value in values(losses) if value["precision"] == "int8"]
    assert layers == [f"{index} layer{index}" for index in reversed(range(LAYERS - 40, LAYERS))]
    assert values(losses)[0] == {
        "layer": "49 layer49",
        "kind": "pointwise",
        "precision": "int8",
        "ms": 0.5,
        "gain": 49.0,
        "lost": 50.0,
        "similarity": 50.0,
        "agreement": 75.0,
        "noise": 20.0,
        "change": -5.0,
    }
    shown = {each["field"] for each in losses["encoding"]["tooltip"]}
    assert shown == values(losses)[0].keys() - {"lost"}
    assert "40 of 50 layers" in losses["description"]
    similarity = [value["percent"] for value in values(path) if value["figure"] == "similarity %"]
    assert similarity == [40.0, 70.0, 80.0, 90.0]


@pytest.mark.usefixtures("_drawing")
def test_a_page_without_labels_and_path_has_the_bars_alone() -> None:
    (losses,) = specifications(sensitivity_page(found_sensitivity(labels=False, path=False), "digits"))
    assert "change" not in values(losses)[0]


@pytest.mark.parametrize("extra", [True, False])
def test_a_page_has_the_tables_of_the_terminal(extra: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not extra:
        monkeypatch.setattr(chart, "PACKAGES", ("harness_has_no_such_package",))
    document = found_sensitivity()
    content = sensitivity_page(document, "digits")
    texts = Page(content.partition("<script")[0] if not extra else content).texts
    for table in sensitivity_tables(document):
        assert table.title in texts
        assert all(cell in texts for row in table.rows for cell in row if cell)
    assert ("harness[report]" in content) is not extra


@settings(max_examples=20, deadline=None)
@given(name=NAMES)
def test_no_name_becomes_markup(name: str) -> None:
    page = Page(sensitivity_page(found_sensitivity(name), f"m{name}"))
    assert page.tags == Page(sensitivity_page(found_sensitivity(), "m")).tags
    assert one_paragraph(f"layer49{name}") in page.texts
