"""An evaluation of one assignment: runs the network on all pictures, and compares it with fp32."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.accuracy.boxes import Floats
from harness.accuracy.model import Model
from harness.errors import HarnessError, TargetMismatchError
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

    def check_machine(self) -> None:
        """Raises TargetMismatchError if fp32 and fp16 may have other bits here than in the reference."""
        engine, isa = self.network.engine, self.network.options.isa
        try:
            here = engine.arithmetic(isa)
        except HarnessError as error:
            raise TargetMismatchError(
                f"the engine does not run here: {error.message}",
                hint="Workers need a processor of the same architecture, and a C library that is not older.",
            ) from None
        if here != self.arithmetic:
            raise TargetMismatchError(
                f"the engine computes with {_said(here)} here, but with {_said(self.arithmetic)} where the "
                "search runs, so results in fp32 and fp16 may differ",
                hint="Use workers with the same kind of processor.",
            )


def evaluate(trial: Shared[Trial], text: str, precisions: set[str]) -> Evaluation:
    """The evaluation of a cfg with these precisions."""
    trial.value.check_machine()
    return trial.value.reference.compare(trial.value.network.outputs(text, precisions))


def as_reference(trial: Shared[Trial]) -> Evaluation:
    """The evaluation of fp32, whose outputs are those of the reference."""
    reference = trial.value.reference
    return reference.compare(reference.outputs)


def _said(arithmetic: dict[str, Any]) -> str:
    caches = " and ".join(f"{size >> 10} KiB" for size in arithmetic.get("caches", {}).values())
    return f"{arithmetic['isa']} (caches of {caches})" if caches else str(arithmetic["isa"])
