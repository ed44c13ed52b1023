"""The scoreboard of in-order cores, with the Cortex-A53's rules."""

from __future__ import annotations

import pytest

from harness.prediction.core_model import load_core_model
from harness.prediction.in_order import InOrderRules, loop_cycles
from harness.prediction.instruction import parse_instruction


@pytest.fixture(scope="module")
def rules() -> InOrderRules:
    found = load_core_model("cortex-a53").in_order
    assert found is not None
    return found


def cycles(rules: InOrderRules, *lines: str) -> float:
    return loop_cycles([parse_instruction(line) for line in lines], rules)


def test_two_independent_instructions_issue_in_a_cycle(rules: InOrderRules) -> None:
    assert cycles(rules, *(f"add x{i}, x20, x21" for i in range(8))) == 4


def test_a_dependent_instruction_waits(rules: InOrderRules) -> None:
    assert cycles(rules, "add x0, x0, x1", "add x0, x0, x1") == 2


def test_wide_multiply_accumulates_issue_one_a_cycle(rules: InOrderRules) -> None:
    lines = [f"fmla v{i}.4s, v30.4s, v31.4s" for i in range(12)]
    assert cycles(rules, *lines) == pytest.approx(12)


def test_narrow_ones_issue_two_a_cycle(rules: InOrderRules) -> None:
    lines = [f"fmla v{i}.2s, v30.2s, v31.2s" for i in range(12)]
    assert cycles(rules, *lines) == pytest.approx(6)


def test_an_accumulator_is_forwarded_to_the_next(rules: InOrderRules) -> None:
    chained = cycles(rules, "fmla v0.4s, v1.4s, v2.4s")
    through_product = cycles(rules, "fmla v0.4s, v0.4s, v2.4s")
    assert (chained, through_product) == (4, 8)


def test_a_wide_load_takes_both_slots_and_two_cycles_of_the_load_unit(rules: InOrderRules) -> None:
    assert cycles(rules, *(f"ldr q{i}, [x0, #{16 * i}]" for i in range(4))) == 8
    assert cycles(rules, *(f"ldr d{i}, [x0, #{8 * i}]" for i in range(4))) == 4


def test_a_load_delays_dependent_instructions(rules: InOrderRules) -> None:
    far = cycles(rules, "ldr d0, [x0]", "fadd v1.2s, v2.2s, v2.2s")
    near = cycles(rules, "ldr d0, [x0]", "fadd v1.2s, v0.2s, v0.2s")
    assert near > far


def test_a_division_occupies_the_vector_unit(rules: InOrderRules) -> None:
    assert cycles(rules, "fdiv v0.4s, v1.4s, v2.4s") == rules.divide_interval
    both = cycles(rules, "fdiv v0.4s, v1.4s, v2.4s", "fmla v3.4s, v4.4s, v5.4s")
    assert both == rules.divide_interval + 1


def test_nop_takes_an_issue_slot_but_no_memory_slot(rules: InOrderRules) -> None:
    loads = [f"ldr d{i}, [x0, #{8 * i}]" for i in range(4)]
    between = [line for load in loads for line in (load, "nop")]
    assert cycles(rules, *loads) == cycles(rules, *between) == 4
    assert cycles(rules, *["nop"] * 8) == 4
    assert cycles(rules, *["prfm pldl1keep, [x1]"] * 8) == 8  # while a prefetch takes one


def test_every_block_takes_at_least_a_cycle(rules: InOrderRules) -> None:
    assert cycles(rules, "nop") == 1
