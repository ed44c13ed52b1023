"""An evaluation of one assignment: runs the network on all pictures, and compares it with fp32."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.accuracy.boxes import Floats
from harness.accuracy.model import Model
from harness.runtimes.engine import EngineOptions, HostEngine
from harness.search.comparison import Reference
from harness.search.evaluation import Evaluation
from harness.tasks.base import Shared, check_stopped
from harness.temporary import temporary_folder


@dataclass(frozen=True, kw_only=True)
class Network:
    """A network and the pictures on which it is evaluated."""

    engine: HostEngine
    model: Model
    options: EngineOptions  # without int8's ranges
    calibration: Path | None  # int8's ranges
    batches: tuple[Path, ...]  # of pictures, as the engine reads them

    def options_for(self, precisions: set[str]) -> EngineOptions:
        """With the ranges only where they are used: the others' evaluations do not depend on them."""
        return replace(self.options, calibration=self.calibration if "int8" in precisions else None)

    def outputs(self, text: str, precisions: set[str]) -> Iterator[list[Floats]]:
        """The outputs of each picture, with a cfg of this text and these precisions."""
        options = self.options_for(precisions)
        with temporary_folder("cfg") as folder:
            cfg = folder / self.model.cfg.name
            cfg.write_text(text, encoding="latin-1", newline="")
            for batch in self.batches:
                check_stopped()
                heads = self.engine.forward_file(cfg, self.model.weights, batch, options).heads
                for number in range(len(next(iter(heads.values())))):
                    yield self.model.arrays(heads, number)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What the evaluations of a network have in common."""

    network: Network
    reference: Reference
    arithmetic: dict[str, Any]  # of the machine that computed the reference


def evaluate(trial: Shared[Trial], text: str, precisions: set[str]) -> Evaluation:
    """The evaluation of a cfg with these precisions."""
    network = trial.value.network
    network.engine.check_arithmetic(trial.value.arithmetic, network.options.isa)
    return trial.value.reference.compare(network.outputs(text, precisions))


def as_reference(trial: Shared[Trial]) -> Evaluation:
    """The evaluation of fp32, whose outputs are those of the reference."""
    reference = trial.value.reference
    return reference.compare(reference.outputs)
