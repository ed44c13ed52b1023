"""A scoreboard: cycles of a block of instructions on an in-order core.

An instruction waits for its operands and for its execution unit; later instructions wait with it. The block
is simulated as the body of a loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.prediction.instruction import ACCESSES, VECTOR_OPERATIONS, Instruction, Kind

_ROUNDS = 4


@dataclass(frozen=True, kw_only=True)
class Latencies:
    """Cycles from the issue of an instruction to the issue of one that needs its result."""

    integer: int
    integer_multiply: int
    integer_divide: int
    load: int
    vector_load: int
    vector: int  # also vector and float arithmetic without accumulation
    multiply_accumulate: int  # of floats
    divide: int
    accumulate_float: int  # from one float multiply-accumulate to the next one's accumulator
    accumulate_integer: int


@dataclass(frozen=True, kw_only=True)
class InOrderRules:
    """An in-order core: two 64-bit vector operations can issue together, or one of 128 bits."""

    width: int  # instructions per cycle
    divide_interval: int  # cycles of the vector unit per float division
    latencies: Latencies


def loop_cycles(instructions: Sequence[Instruction], rules: InOrderRules) -> float:
    """Cycles per iteration of the block, without the first."""
    board = _Scoreboard(rules)
    ends = []
    for _ in range(_ROUNDS):
        for instruction in instructions:
            board.issue(instruction)
        ends.append(board.cycle)
    return max(1.0, (ends[-1] - ends[0]) / (_ROUNDS - 1))


class _Scoreboard:
    def __init__(self, rules: InOrderRules) -> None:
        self.rules = rules
        self.cycle = 0
        self.issued = 0  # in this cycle
        self.ready: dict[str, int] = {}
        self.accumulator_ready: dict[str, int] = {}
        self.memory_free = 0
        self.vector_free = 0

    def issue(self, instruction: Instruction) -> None:
        start = self._operands_ready(instruction)
        accesses = instruction.kind in ACCESSES
        occupies_vector_unit = instruction.wide or instruction.kind in (Kind.VECTOR_MULTIPLY, Kind.DIVIDE)
        if accesses or instruction.kind is Kind.PREFETCH:
            start = max(start, self.memory_free)
        if occupies_vector_unit:
            start = max(start, self.vector_free)
        # A load of 128 bits or more takes both slots.
        alone = instruction.loads_vector and instruction.doublewords >= 2
        self._advance_to(start, alone)
        if accesses:
            self.memory_free = self.cycle + max(1, instruction.doublewords)
        elif instruction.kind is Kind.PREFETCH:
            self.memory_free = self.cycle + 1
        if occupies_vector_unit:
            self.vector_free = self.cycle + 1
        if instruction.kind is Kind.DIVIDE:
            self.vector_free = self.cycle + self.rules.divide_interval
        self._write(instruction)
        if alone and instruction.doublewords > 2:
            self.cycle, self.issued = self.cycle + instruction.doublewords // 2, 0

    def _operands_ready(self, instruction: Instruction) -> int:
        start = max((self.ready.get(register, 0) for register in instruction.reads), default=0)
        if register := instruction.accumulator:
            start = max(start, self.accumulator_ready.get(register, self.ready.get(register, 0)))
        return start

    def _advance_to(self, start: int, alone: bool) -> None:
        if start > self.cycle:
            self.cycle, self.issued = start, 0
        elif self.issued >= self.rules.width or (alone and self.issued):
            self.cycle, self.issued = self.cycle + 1, 0
        self.issued = self.rules.width if alone else self.issued + 1

    def _write(self, instruction: Instruction) -> None:
        latencies = self.rules.latencies
        latency = self._latency(instruction)
        if instruction.kind is Kind.LOAD:
            latency += max(0, instruction.doublewords - 1)
        for register in instruction.writes:
            self.ready[register] = self.cycle + latency
            self.accumulator_ready.pop(register, None)
        if register := instruction.accumulator:
            if instruction.kind is Kind.FLOAT:
                self.accumulator_ready[register] = self.cycle + latencies.accumulate_float
            elif instruction.kind is Kind.VECTOR_MULTIPLY:
                self.accumulator_ready[register] = self.cycle + latencies.accumulate_integer
        if instruction.written_back:
            self.ready[instruction.written_back] = self.cycle + latencies.integer

    def _latency(self, instruction: Instruction) -> int:
        latencies = self.rules.latencies
        kind = instruction.kind
        if kind is Kind.LOAD:
            return latencies.vector_load if instruction.loads_vector else latencies.load
        if kind is Kind.FLOAT and instruction.accumulator:
            return latencies.multiply_accumulate
        if kind is Kind.DIVIDE:
            return latencies.divide
        if kind in VECTOR_OPERATIONS and instruction.writes != ("flags",):
            return latencies.vector
        return {
            Kind.INTEGER_MULTIPLY: latencies.integer_multiply,
            Kind.INTEGER_DIVIDE: latencies.integer_divide,
        }.get(kind, latencies.integer)
