"""One point of a sweep, and the key its result is kept under."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from harness.config.sweep import Build, Model, Options, Protocol, Step, Variant
from harness.config.targets import Target
from harness.measure import fingerprint
from harness.text import printable


@dataclass(frozen=True, kw_only=True)
class Cell:
    """model x policy x target x runtime x toolchain x threads x options."""

    variant: Variant
    target: Target
    runtime: str
    threads: int
    build: Build
    options: Options
    step: Step  # nameless where the sweep has none
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
        """For messages: without control characters, which names in a sweep file may hold."""
        parts = [
            self.target.name,
            self.model.name,
            self.policy,
            f"{self.threads} thread{'s'[: self.threads > 1]}",
        ]
        parts += [self.build.name] if self.build != Build() else []
        if self.step.name:
            parts.append(f"({self.step.name})")
        elif self.options.name:
            parts.append(self.options.name)
        return printable(" ".join(parts))


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Hashes of the files that a cell's result depends on; "" where there is none."""

    engine: str
    weights: str
    calibration: str = ""
    libraries: str = ""  # that the engine loads
    samples: str = ""  # the images whose outputs are compared by digest
    machine: str = ""  # what the host is, where the host measures
    prediction: str = ""  # what an emulated board's prediction depends on, besides the profile


def cell_key(cell: Cell, inputs: Inputs) -> str:
    """The hash of everything that determines a cell's result.

    Names of models and policies are not part of it: two policies that come to the same cfg share a result.
    """
    return fingerprint.of_values(
        {
            "cfg": fingerprint.of_text(cell.variant.cfg_text),
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
        }
    )
