"""Predicts the times of one target's board; says what is missing where that cannot be done."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.errors import HarnessError
from harness.prediction import llvm as llvm_tools
from harness.prediction.core_model import CoreModel, load_core_model
from harness.prediction.costs import block_cycles
from harness.prediction.model import Costs, Prediction, Work, hot_blocks, predict, work_of

if TYPE_CHECKING:
    from harness.config.board_data import BoardData
    from harness.config.targets import Target
    from harness.prediction.llvm import Llvm
    from harness.prediction.profile import Profile


class PredictionError(HarnessError):
    """Nothing can be predicted, for want of a tool or of data."""

    exit_status = 3


@dataclass(frozen=True, kw_only=True)
class Predictor:
    """A target's board and what its instructions cost."""

    board: BoardData
    core: CoreModel
    llvm: Llvm

    def predict(self, profile: Profile, threads: int = 1) -> Prediction:
        """Milliseconds of what was profiled, for a board with coefficients."""
        return predict(profile, self._costs(profile), self.board, threads)

    def work(self, profile: Profile) -> Work:
        """What the board has to do, for fitting coefficients."""
        return work_of(profile, self._costs(profile), len(self.board.caches))

    @property
    def fingerprint(self) -> str:
        """Changes with everything besides the profile that a prediction depends on."""
        values = (self.board, self.core.fingerprint(self.llvm))
        return hashlib.sha256(repr(values).encode()).hexdigest()[:16]

    def _costs(self, profile: Profile) -> Costs:
        hot = [int(number) for number in hot_blocks(profile)]
        cycles = block_cycles([profile.blocks[number] for number in hot], self.core, self.llvm)
        blocks = dict(zip(hot, cycles.tolist(), strict=True))
        return Costs(blocks=blocks, line_fill=self.core.line_fill)


def find_predictor(target: Target, *, fitted: bool = True) -> Predictor:
    """Raises PredictionError with the hint. `fitted`: the board's coefficients are needed too."""
    board = target.board
    if board is None:
        raise PredictionError(
            f"nothing is predicted for {target.name}: its file does not describe its board",
            hint="Add the key board: clock, caches and memory; docs/prediction.md says how.",
        )
    if fitted and board.coefficients is None:
        raise PredictionError(
            f"nothing is predicted for {target.name}: its board has no coefficients",
            hint="`harness predict --calibrate` finds them from times that you measured.",
        )
    core = load_core_model(board.core_model)
    llvm = llvm_tools.find_llvm()
    if llvm is None or llvm.version < (core.least_llvm, 0, 0):
        found = f"{llvm} is older" if llvm else "there is none"
        raise PredictionError(
            f"nothing is predicted for {target.name}: that takes llvm-mc and llvm-mca {core.least_llvm} or "
            f"newer, and {found}",
            hint=llvm_tools.HINT,
        )
    return Predictor(board=board, core=core, llvm=llvm)
