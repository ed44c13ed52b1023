"""The costs of instructions on a core, by the rules in toolchains/cores/."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from harness.config.document import Node, read_document
from harness.config.validation import Field, Integer, Number, Record, Text, from_dataclass
from harness.prediction.in_order import InOrderRules, Latencies, loop_cycles
from harness.prediction.instruction import VECTOR_OPERATIONS, Instruction, parse_instruction
from harness.resources import resource

if TYPE_CHECKING:
    from harness.prediction.llvm import Llvm

# Multiply-adds of one operation on 128 bits, as in engine/benchmarks/peak.cpp: fmla on floats and halves,
# smlal on integers, sdot. Without fp16 arithmetic, halves are widened to floats.
_LANES = {"fp32": 4, "fp16": 4, "int8": 8, "int16": 4}
_LANES_WITH = {("fp16", "fp16"): 8, ("int8", "dotprod"): 16}  # precision, feature
PEAK_PRECISIONS = tuple(_LANES)

_REVISION = 4  # of the method; changes all fingerprints


@dataclass(frozen=True, kw_only=True)
class OutOfOrderRules:
    """An out-of-order core: its model in LLVM, and limits that the model lacks."""

    llvm_cpu: str
    least_llvm: int  # the first version with a model of this core
    wide_vector_operations: float | None = None  # the most operations of 128 bits per cycle


@dataclass(frozen=True, kw_only=True)
class CoreModel:
    """A core's rules."""

    name: str
    description: str
    line_fill: float  # cycles to fill a line of the L1 cache
    multiply_adds: float  # of 128-bit vectors per cycle: the core's peak
    in_order: InOrderRules | None = None
    out_of_order: OutOfOrderRules | None = None

    def peak(self, precision: str, features: Collection[str]) -> float:
        """Multiply-adds per cycle in a precision, at best. `features`: the core's, as in target files."""
        better = [_LANES_WITH[precision, name] for name in features if (precision, name) in _LANES_WITH]
        return self.multiply_adds * max([_LANES[precision], *better])

    @property
    def least_llvm(self) -> int:
        from harness.prediction.llvm import LEAST_VERSION

        return self.out_of_order.least_llvm if self.out_of_order else LEAST_VERSION

    def fingerprint(self, llvm: Llvm) -> str:
        """Identifies everything that cycles depend on; for an in-order core LLVM only disassembles."""
        version = llvm.version if self.out_of_order else ()
        costing = {name: value for name, value in asdict(self).items() if name != "multiply_adds"}
        rules = (_REVISION, costing, version)
        return hashlib.sha256(repr(rules).encode()).hexdigest()[:16]

    def cycles(self, blocks: Sequence[bytes], llvm: Llvm) -> list[float]:
        """Cycles of one iteration of each block, as the body of a loop."""
        words = [struct.unpack(f"<{len(block) // 4}I", block) for block in blocks]
        texts = llvm.disassemble([word for block in words for word in block])
        parsed = {word: parse_instruction(text) for word, text in texts.items()}
        instructions = [[parsed[word] for word in block] for block in words]
        if self.in_order is not None:
            return [loop_cycles(block, self.in_order) for block in instructions]
        rules = self.out_of_order
        assert rules is not None
        cycles = llvm.loop_cycles(words, rules.llvm_cpu)
        if rules.wide_vector_operations is None:
            return cycles
        return [
            max(found, _wide_operations(block) / rules.wide_vector_operations)
            for found, block in zip(cycles, instructions, strict=True)
        ]


def load_core_model(name: str) -> CoreModel:
    """Raises ConfigurationError with file and line."""
    return _SHAPE.read(read_document(resource("toolchains", "cores", f"{name}.yaml")))


def _wide_operations(block: Sequence[Instruction]) -> float:
    """Number of 128-bit operations; narrower ones count as half."""
    return sum(
        1.0 if instruction.wide else 0.5 for instruction in block if instruction.kind in VECTOR_OPERATIONS
    )


def _model(node: Node, **values: object) -> CoreModel:
    if len(values.keys() & {"in_order", "out_of_order"}) != 1:
        raise node.error("a core needs exactly one of the keys in_order and out_of_order")
    from pathlib import Path

    return CoreModel(name=Path(node.file).stem, **values)  # type: ignore[arg-type]


_CYCLES = Integer(least=1, most=100)
_SHAPE: Record[CoreModel] = Record(
    what="a core",
    make=_model,
    fields={
        "description": Field(shape=Text(expected="a line of text"), help="the core", required=True),
        "line_fill": Field(
            shape=Number(least=0, most=100),
            help="cycles to fill a line of the L1 cache",
            required=True,
        ),
        "multiply_adds": Field(
            shape=Number(least=0.5, most=8), help="128-bit vector multiply-adds a cycle", required=True
        ),
        "in_order": Field(
            shape=Record(
                what="an in-order core",
                make=from_dataclass(InOrderRules),
                fields={
                    "width": Field(
                        shape=Integer(least=1, most=8), help="instructions a cycle", required=True
                    ),
                    "divide_interval": Field(
                        shape=_CYCLES, help="cycles of the vector unit per division", required=True
                    ),
                    "latencies": Field(
                        shape=Record(
                            what="latencies",
                            make=from_dataclass(Latencies),
                            fields={
                                name: Field(
                                    shape=_CYCLES, help=f"{name.replace('_', ' ')}, in cycles", required=True
                                )
                                for name in Latencies.__dataclass_fields__
                            },
                        ),
                        help="cycles until a result can be used",
                        required=True,
                    ),
                },
            ),
            help="rules for harness's scoreboard",
        ),
        "out_of_order": Field(
            shape=Record(
                what="an out-of-order core",
                make=from_dataclass(OutOfOrderRules),
                fields={
                    "llvm_cpu": Field(
                        shape=Text(expected="a core"),
                        help="LLVM's name of the core or its stand-in",
                        required=True,
                    ),
                    "least_llvm": Field(
                        shape=Integer(least=14, most=99),
                        help="first version of LLVM with a model of this core",
                        required=True,
                    ),
                    "wide_vector_operations": Field(
                        shape=Number(least=0.5, most=8), help="128-bit vector operations a cycle, at most"
                    ),
                },
            ),
            help="rules for llvm-mca",
        ),
    },
)
