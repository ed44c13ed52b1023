"""The profile of several threads: the slowest part of each loop, and one thread's memory traffic."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from profiles import BOARD, NOP, Row, Scripted, write_profile

from harness.prediction import predictor as predictor_module
from harness.prediction.core_model import load_core_model
from harness.prediction.engine_run import LayerDescription
from harness.prediction.predictor import LOOP_SECONDS, Predictor
from harness.prediction.profile import (
    ALONE_ENDED,
    INPUT_CONVERTED,
    LAYER_ENDED,
    PART_ENDED,
    RUN_ENDED,
    Profile,
    Profiled,
    read_profile,
)

LOOP = LOOP_SECONDS * BOARD.clock_hz  # cycles
COEFFICIENT = 1.5 * 1e3 / BOARD.clock_hz  # of all cores, from cycles to milliseconds


@pytest.fixture
def predictor(monkeypatch: pytest.MonkeyPatch) -> Predictor:
    """A block takes a cycle. No line of the profiles misses the first cache."""
    monkeypatch.setattr(predictor_module, "block_cycles", lambda blocks, *_: np.ones(len(blocks)))
    return Predictor(board=BOARD, core=load_core_model("cortex-a53"), llvm=Scripted())


def profile(path: Path, *segments: tuple[int, int, list[Row]]) -> Profile:
    write_profile(path, [2 * NOP, 3 * NOP], segments)
    return read_profile(path)


@pytest.fixture
def alone(tmp_path: Path) -> Profile:
    return profile(
        tmp_path / "alone",
        (INPUT_CONVERTED + 4, 1, [(0, 1000)]),
        (LAYER_ENDED + 4, 10, [(0, 9000, (0, 5, 0), (0, 15, 0))]),
        (RUN_ENDED, 3, [(1, 50)]),
    )


@pytest.fixture
def parts(tmp_path: Path) -> Profile:
    """Of two threads: a conversion in a loop, and a layer with two loops, the second with a single part."""
    return profile(
        tmp_path / "parts",
        (ALONE_ENDED, 0, [(1, 10)]),
        (PART_ENDED, 0, [(0, 600)]),
        (PART_ENDED + 1, 0, [(0, 400)]),
        (INPUT_CONVERTED + 4, 0, [(1, 1)]),
        (ALONE_ENDED, 900, [(1, 20)]),
        (PART_ENDED, 900, [(0, 4000)]),
        (PART_ENDED + 1, 900, [(0, 4500)]),
        (ALONE_ENDED, 0, [(1, 30)]),
        (PART_ENDED, 0, [(0, 500)]),
        (PART_ENDED + 1, 0, []),
        (LAYER_ENDED + 4, 0, [(1, 2)]),
        (RUN_ENDED, 0, [(1, 50)]),
    )


CONVERSION = 10 + 600 + 1 + LOOP
LAYER = 20 + 4500 + 30 + 500 + 2 + 2 * LOOP


def test_a_loop_takes_as_long_as_its_slowest_part(
    predictor: Predictor, alone: Profile, parts: Profile
) -> None:
    found = predictor.predict(Profiled(alone=alone, several=parts), 2)
    assert found.compute_ms == pytest.approx((CONVERSION + LAYER + 50) * COEFFICIENT)
    assert (found.validated, found.error) == (True, 0.2)


def test_the_memory_traffic_is_that_of_one_thread(
    predictor: Predictor, alone: Profile, parts: Profile
) -> None:
    """The parts, one after the other, read again what they share."""
    found = predictor.predict(Profiled(alone=alone, several=parts), 2)
    assert found.work.bytes_moved == 64 * (1 + 10 + 20 + 3)
    assert found.memory_ms == pytest.approx(1e3 * 1.0 * found.work.bytes_moved / 2e9)


def test_parts_belong_to_their_layer(predictor: Predictor, alone: Profile, parts: Profile) -> None:
    profiled = Profiled(alone=alone, several=parts)
    layers = [LayerDescription(index=4, type="t", executed="fp32", isa="i", algorithm="a", multiply_adds=1)]
    found = predictor.predict(profiled, 2).layers
    assert found == pytest.approx(
        {4: (CONVERSION + LAYER) * COEFFICIENT + 1e3 * 1.0 * 64 * (1 + 10 + 20) / 2e9}
    )
    part = predictor.layer_parts(profiled, layers, 2)[4]
    assert part.milliseconds == pytest.approx(found[4])
    assert part.conversion == pytest.approx((CONVERSION + LAYER) * COEFFICIENT)  # nothing has vectors


def test_one_thread_has_nothing_of_several(predictor: Predictor, alone: Profile, parts: Profile) -> None:
    both = Profiled(alone=alone, several=parts)
    assert predictor.predict(both, 1) == predictor.predict(Profiled(alone=alone), 1)


def test_of_a_first_thread_all_cycles_count(predictor: Predictor, alone: Profile, tmp_path: Path) -> None:
    first = profile(tmp_path / "first", (RUN_ENDED, 900, [(0, 7000)]))
    found = predictor.predict(Profiled(alone=alone, several=first), 2)
    assert found.compute_ms == pytest.approx(7000 * COEFFICIENT)
    assert found.work.bytes_moved == 64 * (1 + 10 + 20 + 3)
    assert found.validated


def test_without_several_the_work_is_divided_equally(predictor: Predictor, alone: Profile) -> None:
    found = predictor.predict(Profiled(alone=alone), 2)
    assert found.compute_ms == pytest.approx(10050 / 2 * COEFFICIENT)
    assert not found.validated
