"""Which cells take turns on one board: few enough for all boards to have some, and for little to be lost."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from networks import write_sweep

from harness.config.sweep_file import read_sweep
from harness.config.targets import load_target
from harness.measure.cell import Cell
from harness.sweep.plan import LEAST_TOGETHER, MOST_TOGETHER, cells, interleave


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Cell:
    text = "models: [{name: net, cfg: net.cfg, weights: random}]\npolicies: [fp32]\ntargets: [pi4]\n"
    return cells(read_sweep(write_sweep(tmp_path_factory.mktemp("sweep"), text)), lambda _: False)[0]


def sizes(cell: Cell, groups: list[int], boards: int) -> list[int]:
    """How many cells each task has, of groups of so many policies."""
    pending = {
        f"{group} {number}": replace(cell, threads=1 + group)
        for group, count in enumerate(groups)
        for number in range(count)
    }
    tasks = interleave(pending, {"pi4": boards})
    assert [key for task in tasks for key, _ in task] == list(pending)  # each once, in the plan's order
    assert all(len({cell.threads for _, cell in task}) == 1 for task in tasks)
    return [len(task) for task in tasks]


@pytest.mark.parametrize(
    ("groups", "boards", "expected"),
    [
        ([3], 1, [3]),
        ([3], 4, [3]),  # compared cells stay on one board
        ([4], 4, [2, 2]),
        ([8], 1, [8]),
        ([8], 4, [2, 2, 2, 2]),
        ([9], 1, [4, 5]),
        ([75], 1, [7, 8, 7, 8, 7, 8, 7, 8, 7, 8]),
        ([75], 4, [7, 8, 7, 8, 7, 8, 7, 8, 7, 8]),
        ([6, 4], 3, [3, 3, 4]),
        ([5, 5], 2, [5, 5]),
        ([3, 4, 2], 4, [3, 2, 2, 2]),
    ],
)
def test_groups_are_split_for_their_boards(
    cell: Cell, groups: list[int], boards: int, expected: list[int]
) -> None:
    assert sizes(cell, groups, boards) == expected


@given(groups=st.lists(st.integers(1, 40), max_size=6), boards=st.integers(1, 30))
def test_tasks_are_small_and_boards_have_some(cell: Cell, groups: list[int], boards: int) -> None:
    found = sizes(cell, groups, boards)
    assert all(size <= MOST_TOGETHER for size in found)
    assert all(size >= LEAST_TOGETHER for size in found) or 1 in groups
    if len(found) < boards:
        assert all(size < 2 * LEAST_TOGETHER for size in found)


def test_boards_of_another_target_change_nothing(cell: Cell) -> None:
    other = replace(cell, target=load_target("pi5"))
    pending = {str(number): cell if number < 6 else other for number in range(12)}
    assert [len(task) for task in interleave(pending, {"pi4": 3, "pi5": 1})] == [2, 2, 2, 6]


def test_runtimes_take_turns(cell: Cell) -> None:
    pending = {name: replace(cell, runtime=name) for name in ("engine", "onnxruntime")}
    assert [[key for key, _ in task] for task in interleave(pending, {"pi4": 1})] == [
        ["engine", "onnxruntime"]
    ]


def test_cells_with_one_round_do_not_take_turns(cell: Cell) -> None:
    alone = replace(cell, protocol=replace(cell.protocol, rounds=1))
    assert [len(task) for task in interleave(dict.fromkeys("abc", alone), {})] == [1, 1, 1]
