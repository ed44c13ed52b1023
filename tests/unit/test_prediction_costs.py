"""Costs of blocks, and the file that keeps them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from profiles import NOP, Scripted

from harness.config.document import parse_document
from harness.errors import ConfigurationError, HarnessError
from harness.prediction import core_model
from harness.prediction.core_model import CoreModel, OutOfOrderRules, load_core_model
from harness.prediction.costs import block_cycles
from harness.prediction.llvm import Llvm
from harness.resources import resource

BLOCKS = [NOP, 2 * NOP, 3 * NOP]
FMLA, FMLA_NARROW, ADD = 1, 2, 3


@dataclass
class Calculations:
    """How many blocks were calculated, and nothing else: a block costs its length."""

    blocks: list[int] = field(default_factory=list)

    def cycles(self, blocks: Sequence[bytes], _llvm: Llvm) -> list[float]:
        self.blocks += map(len, blocks)
        return [float(len(block)) for block in blocks]


@pytest.fixture
def calculations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Calculations:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    found = Calculations()
    monkeypatch.setattr(CoreModel, "cycles", found.cycles)
    return found


@pytest.fixture
def core() -> CoreModel:
    return load_core_model("cortex-a53")


def test_a_block_is_calculated_once(calculations: Calculations, core: CoreModel) -> None:
    first = block_cycles([*BLOCKS, NOP], core, Scripted())
    again = block_cycles([*reversed(BLOCKS)], core, Scripted())
    assert first.tolist() == [4, 8, 12, 4]
    assert again.tolist() == [12, 8, 4]
    assert calculations.blocks == [4, 8, 12]


def test_other_rules_have_other_costs(calculations: Calculations, core: CoreModel) -> None:
    block_cycles(BLOCKS, core, Scripted())
    assert core.in_order
    block_cycles(BLOCKS, replace(core, in_order=replace(core.in_order, width=1)), Scripted())
    assert len(calculations.blocks) == 2 * len(BLOCKS)


def test_costs_of_out_of_order_cores_depend_on_the_llvm_version(core: CoreModel) -> None:
    older, newer = (Llvm(mc="", mca="", version=(major, 0, 0)) for major in (18, 19))
    assert core.fingerprint(older) == core.fingerprint(newer)
    modelled = load_core_model("cortex-a72")
    assert modelled.fingerprint(older) != modelled.fingerprint(newer)


def test_several_processes_calculate_at_once(calculations: Calculations, core: CoreModel) -> None:
    blocks = [i * NOP for i in range(1, 200)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: block_cycles(blocks, core, Scripted()).tolist(), range(16)))
    assert found == [[4.0 * i for i in range(1, 200)]] * 16


def test_a_file_that_is_not_a_database_gives_a_hint(
    calculations: Calculations, core: CoreModel, tmp_path: Path
) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "costs.sqlite").write_text("this is no database, " * 100)
    with pytest.raises(HarnessError, match=r"costs\.sqlite") as caught:
        block_cycles(BLOCKS, core, Scripted())
    assert "Remove the file" in caught.value.hint


def test_a_damaged_database_gives_a_hint(calculations: Calculations, core: CoreModel, tmp_path: Path) -> None:
    blocks = [i * NOP for i in range(1, 500)]
    block_cycles(blocks, core, Scripted())
    database = tmp_path / "cache" / "costs.sqlite"
    whole = database.read_bytes()
    database.write_bytes(whole[:4096] + b"\x55" * (len(whole) - 4096))
    with pytest.raises(HarnessError, match=r"costs\.sqlite") as caught:
        block_cycles(blocks, core, Scripted())
    assert "Remove the file" in caught.value.hint


class Analysed(Llvm):
    """An LLVM to which a block costs a cycle, and that shows three instructions."""

    def __init__(self) -> None:
        super().__init__(mc="none", mca="none", version=(19, 1, 7))

    def disassemble(self, words: Sequence[int]) -> dict[int, str]:
        texts = {
            FMLA: "fmla v0.4s, v1.4s, v2.4s",
            FMLA_NARROW: "fmla v0.2s, v1.2s, v2.2s",
            ADD: "add x0, x1, x2",
        }
        return {word: texts[word] for word in words}

    def loop_cycles(self, blocks: Sequence[Sequence[int]], cpu: str) -> list[float]:
        return [1.0] * len(blocks)


def test_vector_operations_per_cycle_are_limited_by_the_rules() -> None:
    rules = OutOfOrderRules(llvm_cpu="any", least_llvm=14, wide_vector_operations=1.0)
    core = CoreModel(name="a core", description="", line_fill=1.0, multiply_adds=1, out_of_order=rules)
    words = [[FMLA] * 6, [FMLA_NARROW] * 6, [ADD] * 6]
    blocks = [struct.pack("<6I", *block) for block in words]
    assert core.cycles(blocks, Analysed()) == [6.0, 3.0, 1.0]
    free = replace(core, out_of_order=replace(rules, wide_vector_operations=None))
    assert free.cycles(blocks, Analysed()) == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("name", sorted(path.stem for path in resource("toolchains", "cores").glob("*.yaml")))
def test_every_shipped_core_is_valid(name: str) -> None:
    core = load_core_model(name)
    assert core.name == name
    assert core.line_fill > 0
    assert core.least_llvm >= 14


def test_a_core_is_in_order_or_out_of_order() -> None:
    in_order = resource("toolchains", "cores", "cortex-a53.yaml").read_text()
    both = in_order + "out_of_order: {llvm_cpu: cortex-a57, least_llvm: 14}\n"
    neither = "description: a core\nline_fill: 4\nmultiply_adds: 1\n"
    for text in (both, neither):
        with pytest.raises(ConfigurationError, match=r"core\.yaml:\d+: a core needs exactly one of"):
            core_model._SHAPE.read(parse_document(text, "core.yaml"))
