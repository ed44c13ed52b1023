"""The page of a search: the answer, the figures that it rests on, and names that are no markup."""

from __future__ import annotations

from typing import Any

import pytest
from found_search import LAYERS, found_search
from hypothesis import given, settings
from test_charts import specifications
from test_report_escaping import NAMES, Page

from harness.report.charts import chart
from harness.report.pareto import MIB
from harness.report.search import headings, sentences, table_rows
from harness.report.search_page import answer, search_page
from harness.text import one_paragraph


@pytest.fixture
def _drawing() -> None:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")


def values(specification: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = specification["datasets"]["values"]
    return found


def test_the_answer_has_the_verified_figures_of_the_best_policy() -> None:
    assert answer(found_search()) == (
        "Layers with weights: 3 fp32, 3 int8. 5.1 ms instead of 10 ms in fp32, predicted on one thread; "
        "97.50 % agree with fp32, -2.50 points of accuracy, on pictures that the search did not see."
    )


def test_an_interrupted_search_without_labels_says_which_pictures_it_speaks_of() -> None:
    said = answer(found_search(verified=False, labels=False))
    assert said.endswith("98.50 % agree with fp32, on the pictures of the search.")
    assert "5 ms instead of 10 ms" in said


def test_without_a_policy_that_meets_the_limits_the_page_says_so() -> None:
    page = search_page(found_search(met=False), "digits")
    assert "No policy meets the limits" in page
    assert "★" not in page.partition("<script>")[0]


@pytest.mark.usefixtures("_drawing")
def test_the_front_is_drawn_as_searched_and_as_verified_and_the_best_layers_by_time() -> None:
    agreement, change, layers = specifications(search_page(found_search(), "digits"))
    kinds = [value["kind"] for value in values(agreement)]
    assert (kinds.count("searched"), kinds.count("verified"), kinds.count("all layers alike")) == (3, 3, 3)
    verified = next(v for v in values(change) if v["kind"] == "verified" and v["policy"] == "2 ★")
    assert (verified["ms"], verified["change"]) == (5.1, -2.5)
    assert [value["precision"] for value in values(layers)] == ["fp32", "int8"] * (LAYERS // 2)
    assert values(layers)[-1]["end"] == pytest.approx(sum(0.5 + index / 10 for index in range(LAYERS)))


@pytest.mark.usefixtures("_drawing")
def test_without_labels_only_the_agreement_is_drawn() -> None:
    page = search_page(found_search(labels=False), "digits")
    assert len(specifications(page)) == 2  # the front and the layers


def test_without_the_extra_the_page_has_tables_and_says_how_to_get_charts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chart, "PACKAGES", ("altair_that_is_not_there",))
    page = search_page(found_search(), "digits")
    assert "harness[report]" in page
    assert "97.50" in page
    assert not specifications(page)


@pytest.mark.usefixtures("_drawing")
@given(name=NAMES)
@settings(max_examples=10, deadline=None)
def test_no_name_becomes_markup(name: str) -> None:
    page = search_page(found_search(f"n{name}"), f"m{name}")
    assert Page(page).tags == Page(search_page(found_search("plain"), "plain")).tags
    layers = values(specifications(page)[-1])
    assert layers[0]["name"] == one_paragraph(f"layer0n{name}")


def test_a_limit_of_memory_adds_a_column_and_what_comes_nearest() -> None:
    document = found_search()
    assert "MiB" not in dict(headings(document))
    document["limits"]["max_memory_bytes"] = 5 * MIB
    place = [heading for heading, _ in headings(document)].index("MiB")
    column = [cells[place] for _, cells in table_rows(document)]
    assert column == ["9.54", "7.63", "3.34", "4.01", "5.01", "7.01"]
    (about,) = [line for line in sentences(document) if line.startswith("MiB: arena and weights")]
    assert "second inference" in about  # 5.01 MiB
    document["limits"]["max_memory_bytes"] = 3 * MIB
    document |= {"best": None, "nearest": document["front"][0]}
    assert (
        sentences(document)[0] == "No policy fits into 3.00 MiB. Policy 1 comes nearest: it needs 4.01 MiB."
    )
    assert sentences(document)[0] in search_page(document, "net")
