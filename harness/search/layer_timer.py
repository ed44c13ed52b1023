"""Time and memory of an inference under an assignment: predicted for a board, or measured on this machine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from harness import console
from harness.config.darknet_cfg import DarknetCfg
from harness.runtimes.engine import EngineOptions, HostEngine
from harness.search.assignment import Assignment
from harness.search.latency import Milliseconds
from harness.temporary import temporary_folder

if TYPE_CHECKING:
    from harness.config.targets import Target
    from harness.prediction.predictor import Predictor

_ROUNDS = 8
_RUNS = 10  # in each round


@dataclass(frozen=True, kw_only=True)
class Timed:
    """The time of an inference, and its memory."""

    milliseconds: float  # of the whole inference
    layers: Milliseconds  # [layers]
    memory_bytes: int  # the peak of the process; of an emulated board, arena and weights
    algorithms: Sequence[str]  # of each layer
    moved: Sequence[int]  # bytes that each layer reads and writes


@dataclass(frozen=True, kw_only=True)
class Model:
    """The files of a model, with the ranges of int8."""

    network: DarknetCfg
    weights: Path
    calibration: Path | None

    @contextlib.contextmanager
    def written(self, assignments: Sequence[Assignment]) -> Iterator[list[Path]]:
        """A cfg for each assignment."""
        with temporary_folder("assignments") as folder:
            files = []
            for number, assignment in enumerate(assignments):
                file = folder / f"{number}.cfg"
                file.write_text(assignment.applied(self.network).text, encoding="latin-1", newline="")
                files.append(file)
            yield files


class LayerTimer(Protocol):
    """Times inferences of one model."""

    @property
    def predicted(self) -> bool:
        """Whether times are predicted and not measured."""
        ...

    @property
    def threads(self) -> int:
        """The threads of an inference."""
        ...

    def time(self, assignments: Sequence[Assignment]) -> list[Timed]:
        """In the order of the assignments."""
        ...


@dataclass(frozen=True, kw_only=True)
class PredictedTimer:
    """Predicts the times of a target's board, as `harness predict` does."""

    model: Model
    target: Target
    predictor: Predictor
    threads: int = 1
    predicted: bool = True

    def time(self, assignments: Sequence[Assignment]) -> list[Timed]:
        """Raises BuildError if the target cannot be emulated here."""
        from harness.prediction.engine_run import Inference, profile_emulated, profiled_threads

        files = {"weights": self.model.weights}
        if self.model.calibration:
            files["calibration"] = self.model.calibration
        threads = profiled_threads(self.target, self.threads)
        with self.model.written(assignments) as cfgs:
            profiles = profile_emulated(
                [
                    Inference(
                        name=f"policy {number} on {self.target.name}",
                        target=self.target,
                        files=files | {"cfg": cfg},
                        options=EngineOptions(),
                        threads=[threads],
                    )
                    for number, cfg in enumerate(cfgs)
                ]
            )
        found = []
        for runs in profiles:
            profiled, bench = runs[threads]
            prediction = self.predictor.predict(profiled, self.threads)
            found.append(
                Timed(
                    milliseconds=prediction.milliseconds,
                    layers=_array(prediction.layers, len(self.model.network.layers)),
                    memory_bytes=(bench.arena_bytes or 0) + (bench.weight_bytes or 0),
                    algorithms=[layer.algorithm for layer in bench.layers],
                    moved=[layer.bytes for layer in bench.layers],
                )
            )
        return found


@dataclass(frozen=True, kw_only=True)
class MeasuredTimer:
    """Measures on this machine, in rounds in which the assignments take turns.

    Other programs only add time, to whole inferences far more often than to a single layer. So the time of an
    inference is the least of all, that of a layer the least median of a round: medians of whole inferences on
    a busy machine were 1.6 times the sums of the medians of their layers.
    """

    model: Model
    engine: HostEngine
    threads: int = 1
    predicted: bool = False

    def time(self, assignments: Sequence[Assignment]) -> list[Timed]:
        """Raises BuildError or RuntimeFailedError if the engine fails."""
        totals, memory = np.empty((2, _ROUNDS, len(assignments)))
        layers = np.empty((_ROUNDS, len(assignments), len(self.model.network.layers)))
        options = EngineOptions(threads=self.threads, calibration=self.model.calibration)
        with (
            self.model.written(assignments) as cfgs,
            console.progress("measuring", total=_ROUNDS * len(cfgs)) as bar,
        ):
            rows: dict[int, list[dict[str, Any]]] = {}
            for turn in range(_ROUNDS):
                for number, cfg in enumerate(cfgs):
                    bench = self.engine.bench(
                        cfg, self.model.weights, options, warmup=2, runs=_RUNS, profile=True
                    )
                    totals[turn, number] = bench["min_ns"] / 1e6
                    memory[turn, number] = bench["peak_rss_bytes"]
                    rows[number] = bench["layers"]
                    times = {row["index"]: row["ns"] / 1e6 for row in bench["layers"]}
                    layers[turn, number] = _array(times, len(self.model.network.layers))
                    bar.advance()
        return [
            Timed(
                milliseconds=float(totals[:, number].min()),
                layers=layers[:, number].min(axis=0),
                memory_bytes=int(memory[:, number].max()),
                algorithms=[row["algorithm"] for row in rows[number]],
                moved=[row["bytes"] for row in rows[number]],
            )
            for number in range(len(assignments))
        ]


def _array(times: Mapping[int, float], layers: int) -> Milliseconds:
    return np.array([times.get(layer, 0.0) for layer in range(layers)])
