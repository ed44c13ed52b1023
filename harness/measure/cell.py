"""A cell with all its inputs, and the key of its result."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property

from harness.config.sweep import Build, Model, Options, Protocol, Step, Variant
from harness.config.targets import Target
from harness.measure import fingerprint
from harness.measure.spec import CellSpec


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A cell with its inputs; its specification has their names."""

    variant: Variant
    target: Target
    runtime: str
    threads: int
    build: Build
    options: Options
    step: Step  # without a name if the sweep has no steps
    protocol: Protocol
    emulated: bool

    @property
    def model(self) -> Model:
        return self.variant.model

    @property
    def policy(self) -> str:
        return self.variant.policy

    @property
    def name(self) -> str:
        return self.spec.name

    @cached_property
    def spec(self) -> CellSpec:
        return CellSpec(
            model=self.model.name,
            policy=self.policy,
            target=self.target.name,
            runtime=self.runtime,
            toolchain=self.build.name,
            threads=self.threads,
            options=self.options.name,
            emulated=self.emulated,
            step=self.step.name,
            note=self.step.note,
        )


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Hashes of the files that a cell's result depends on; "" if there is no file."""

    engine: str
    weights: str
    calibration: str = ""
    libraries: str = ""  # those that the engine loads
    samples: str = ""  # the images whose outputs are compared by digest
    machine: str = ""  # the host's processor, if the host measures
    prediction: str = ""  # what an emulated board's prediction depends on, besides the profile


def cell_key(cell: Cell, inputs: Inputs) -> str:
    """The hash of everything that determines a cell's result.

    Names of models and policies are not part of it: two policies that give the same cfg, and the same file of
    TensorFlow Lite, share a result.
    """
    return fingerprint.of_values(
        {
            "cfg": fingerprint.of_text(cell.variant.cfg.text),
            "target": cell.target.name,
            "emulated": cell.emulated,
            "runtime": cell.runtime,
            "threads": cell.threads,
            "options": asdict(cell.options),
            "protocol": [
                *(cell.protocol.warmup, cell.protocol.runs, cell.protocol.min_seconds, cell.protocol.rounds),
                *(["instructions"] if cell.protocol.count_instructions else []),
                *(["sustained"] if cell.protocol.sustained else []),
            ],
            "inputs": asdict(inputs),
            **({"tflite": cell.variant.tflite} if cell.variant.tflite else {}),
        }
    )
