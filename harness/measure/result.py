"""The result of a cell, as it is stored and reported. Units are in the names."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.accuracy.picture_detections import PictureDetections
from harness.boards.sensors.conditions import Conditions
from harness.boards.sensors.cool_down import Cooling
from harness.boards.sensors.governor import HeldGovernor
from harness.runtimes.base import LayerResult

Status = Literal["done", "failed", "skipped", "pending"]


@dataclass(frozen=True, kw_only=True)
class CellConditions(Conditions):
    """The conditions of a cell's rounds taken together; and for each round, how the board was prepared."""

    cooling: Sequence[Cooling] = ()
    governor: Sequence[HeldGovernor] = ()


@dataclass(frozen=True, kw_only=True)
class TimePoint:
    """A part of a sustained run. None: unknown."""

    seconds: float  # from the first frame to this part's end
    fps: float
    clock: float | None = None  # median, of the slowest core, as a fraction of the hardware's maximum
    celsius: float | None = None  # of the hottest core
    throttled: bool | None = None  # at some time during this part


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """The result of a cell. None: unknown, as in results of older versions and of cells that failed."""

    fps: float | None = None
    p50_ms: float | None = None
    p90_ms: float | None = None
    p99_ms: float | None = None
    rounds: Sequence[int] | None = None  # number of samples of each process; None: one process
    warmup: int | None = None  # inferences before the samples of each process
    board: str | None = None  # the name of the device
    throttled: bool | None = None
    attempts: int | None = None  # runs until one was not throttled; the maximum over all rounds
    time_series: Sequence[TimePoint] | None = None  # of a sustained run
    conditions: CellConditions | None = None
    wall_seconds: float | None = None  # all turns of the cell together
    peak_rss_bytes: int | None = None
    interpreter_rss_bytes: int | None = None  # of these, the interpreter's before it loads the runtime
    file_bytes: int | None = None  # of the model's file that the runtime executes in place of cfg and weights
    float_operators: Mapping[str, int] | None = None  # of it beside integers, by name
    arena_bytes: int | None = None
    weight_bytes: int | None = None
    isa: str | None = None
    conversion_ms: float | None = None  # of p50_ms, for converting between precisions
    instructions: int | None = None
    instructions_isa: str | None = None  # the instruction set that the emulator executed
    instructions_unavailable_reason: str | None = None
    predicted_ms: float | None = None  # of a real board, from the emulated run
    predicted_low_ms: float | None = None  # 90 % of measured times are expected between this time
    predicted_high_ms: float | None = None  # and this time
    prediction_error: float | None = None  # the fraction of the prediction that makes this interval
    prediction_validated: bool | None = None  # whether that error was found on this kind of board
    prediction_divided: bool | None = None  # whether one thread's work is assumed to be divided equally
    prediction_coefficients_of: str | None = None  # the target that they are borrowed from, if they are
    prediction_unavailable_reason: str | None = None
    bytes_moved: int | None = None  # to and from memory in one inference
    digest: str | None = None  # of the digests of all sample images
    digests: Sequence[str] | None = None
    digest_matches_host: bool | None = None
    bit_exact: bool | None = None  # whether the digests have to match


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a piece of work ended, and if it failed, why."""

    status: Status
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class CellOutcome(Outcome):
    """How a cell ended."""

    result: CellResult = CellResult()
    samples_ns: Sequence[int] = ()
    layers: Sequence[LayerResult] = ()


@dataclass(frozen=True, kw_only=True)
class EvaluationOutcome(Outcome):
    """How a computation on the host ended; `values` are JSON values."""

    values: Mapping[str, Any] = field(default_factory=dict)
    detections: Sequence[PictureDetections] = ()  # of a detector's accuracy


Work = Generator[None, None, Outcome]  # yields when another job may have its turn
CellWork = Generator[None, None, CellOutcome]
