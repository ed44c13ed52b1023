"""docs/predictions.md agrees with its figures, and these with the list of networks."""

from __future__ import annotations

import json

from tools.boardmodel.published import read_benchmark
from tools.predictions_page import FIGURES, PAGE, POLICIES, page, read_networks

DOCUMENT = read_networks()
PREDICTED = json.loads(FIGURES.read_text(encoding="utf-8"))


def test_the_page_is_what_the_figures_say() -> None:
    assert page(PREDICTED) == PAGE.read_text(encoding="utf-8"), "run python -m tools.predictions_page"


def test_every_network_of_the_list_has_all_figures() -> None:
    assert PREDICTED.keys() == {network["name"] for network in DOCUMENT["networks"]}
    points = {
        (policy, target, threads)
        for policy in POLICIES
        for target in DOCUMENT["targets"]
        for threads in DOCUMENT["threads"]
    }
    for rows in PREDICTED.values():
        assert {(row["policy"], row["target"], row["threads"]) for row in rows} == points
        for row in rows:
            assert 0 < row["predicted_low_ms"] < row["predicted_ms"] < row["predicted_high_ms"]


def test_threads_do_not_beat_one_thread_divided_by_their_number() -> None:
    for name, rows in PREDICTED.items():
        alone = {(row["policy"], row["target"]): row["predicted_ms"] for row in rows if row["threads"] == 1}
        for row in rows:
            least = alone[row["policy"], row["target"]] / row["threads"]
            assert row["predicted_ms"] >= 0.999 * least, name  # the figures are rounded


def test_published_networks_have_the_same_input() -> None:
    benchmark = read_benchmark()
    published = [network for network in DOCUMENT["networks"] if "published" in network]
    assert published
    for network in published:
        for name in network["published"].values():
            side = benchmark.inputs[name]
            assert network["input"] == f"{side}x{side}"
            assert any(name in board.one_thread_ms for board in benchmark.boards)
