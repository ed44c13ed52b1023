"""Predicts the times of one target's board, or raises an error that names the missing requirement."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.errors import HarnessError
from harness.prediction import llvm as llvm_tools
from harness.prediction.continued_blocks import continuations
from harness.prediction.core_model import PEAK_PRECISIONS, CoreModel, load_core_model
from harness.prediction.costs import block_cycles
from harness.prediction.model import Costs, Prediction, Work, hot_blocks, predict, work_of
from harness.prediction.parts import LayerParts
from harness.prediction.phases import layer_parts
from harness.prediction.several_threads import joined

if TYPE_CHECKING:
    from harness.config.board_data import BoardData
    from harness.config.targets import Target
    from harness.prediction.engine_run import LayerDescription
    from harness.prediction.llvm import Llvm
    from harness.prediction.profile import Profile, Profiled
    from harness.runtimes.base import LayerResult


# To start the waiting threads of a parallel loop, and to wait for their end. Not measured on a board: a core
# takes some 100 ns to see what another one has written, and each thread sees the start and reports its end.
LOOP_SECONDS = 1e-6


class PredictionError(HarnessError):
    """A tool or data for predictions is missing."""

    exit_status = 3


@dataclass(frozen=True, kw_only=True)
class Predictor:
    """A target's board and the costs of its instructions."""

    board: BoardData
    core: CoreModel
    llvm: Llvm

    def predict(self, profiled: Profiled, threads: int = 1) -> Prediction:
        """The time of an inference with so many threads, for a board with coefficients."""
        profile = self._profile(profiled, threads)
        return predict(profile, self._costs(profile), self.board, threads)

    def layer_parts(
        self, profiled: Profiled, layers: Sequence[LayerDescription | LayerResult], threads: int = 1
    ) -> dict[int, LayerParts]:
        """What the time of each layer is spent on, by index."""
        profile = self._profile(profiled, threads)
        costs = self._costs(profile)
        words = {number: _words(profile.blocks[number]) for number in costs.blocks}
        text = self.llvm.disassemble([word for block in words.values() for word in block])
        return layer_parts(
            profile,
            costs,
            {number: [text[word] for word in block] for number, block in words.items()},
            self.board,
            threads=threads,
            winograd={layer.index for layer in layers if layer.algorithm.startswith("winograd")},
        )

    def peaks(self, features: Collection[str], threads: int = 1) -> dict[str, float]:
        """Multiply-adds per second at best, by precision. `features`: the core's, as in target files."""
        rate = self.board.clock_hz * min(threads, self.board.cores)
        return {precision: rate * self.core.peak(precision, features) for precision in PEAK_PRECISIONS}

    def work(self, profiled: Profiled, threads: int = 1) -> Work:
        """The work of an inference with so many threads, for fitting coefficients."""
        profile = self._profile(profiled, threads)
        return work_of(profile, self._costs(profile), len(self.board.caches))

    def _profile(self, profiled: Profiled, threads: int) -> Profile:
        if threads == 1 or profiled.several is None:
            return profiled.alone
        return joined(
            profiled.alone, profiled.several, min(threads, self.board.cores), len(self.board.caches)
        )

    @property
    def fingerprint(self) -> str:
        """Identifies everything except the profile that a prediction depends on."""
        values = (self.board, self.core.fingerprint(self.llvm), LOOP_SECONDS)
        return hashlib.sha256(repr(values).encode()).hexdigest()[:16]

    def _costs(self, profile: Profile) -> Costs:
        hot = [int(number) for number in hot_blocks(profile)]
        blocks = self._block_cycles(profile, hot)
        loop = LOOP_SECONDS * self.board.clock_hz
        return Costs(blocks=blocks, line_fill=self.core.line_fill, loop=loop)

    def _block_cycles(self, profile: Profile, numbers: Sequence[int]) -> dict[int, float]:
        """What each block adds to the cycles of the code that continues it."""
        afters = continuations(profile, numbers)
        bodies = {profile.blocks[number] + after for number, after in zip(numbers, afters, strict=True)}
        distinct = sorted(bodies | set(afters) - {b""})
        cycles = dict(zip(distinct, block_cycles(distinct, self.core, self.llvm).tolist(), strict=True))
        return {
            number: max(cycles[profile.blocks[number] + after] - cycles.get(after, 0.0), 0.0)
            for number, after in zip(numbers, afters, strict=True)
        }


def _words(block: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(block) // 4}I", block)


def find_predictor(target: Target, *, fitted: bool = True) -> Predictor:
    """Raises PredictionError with the hint. `fitted`: the board's coefficients are needed too."""
    board = target.board
    if board is None:
        raise PredictionError(
            f"no prediction for {target.name}: its file has no key board",
            hint="Describe clock, caches and memory under board; see docs/prediction.md.",
        )
    if fitted and board.coefficients is None:
        raise PredictionError(
            f"no prediction for {target.name}: its board has no coefficients",
            hint="Fit them to measured times with `harness predict --calibrate`, or borrow another target's.",
        )
    core = load_core_model(board.core_model)
    llvm = llvm_tools.find_llvm()
    if llvm is None or llvm.version < (core.least_llvm, 0, 0):
        found = f"found {llvm}" if llvm else "none is installed"
        raise PredictionError(
            f"no prediction for {target.name}: llvm-mc and llvm-mca {core.least_llvm} or newer are required, "
            f"{found}",
            hint=llvm_tools.HINT,
        )
    return Predictor(board=board, core=core, llvm=llvm)
