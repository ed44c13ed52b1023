"""The times of assignments are those of the threads that were asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from search_stand_in import CFG, LAYERS

from harness.config.darknet_cfg import parse_cfg
from harness.config.targets import load_target
from harness.prediction import engine_run
from harness.runtimes.base import BenchResult, LayerResult
from harness.runtimes.engine import EngineOptions, HostEngine
from harness.search.assignment import Assignment
from harness.search.layer_timer import MeasuredTimer, Model, PredictedTimer

MODEL = Model(network=parse_cfg(CFG, "net.cfg"), weights=Path("net.weights"), calibration=None)
ASSIGNMENTS = [Assignment.uniform(range(LAYERS), precision) for precision in ("fp32", "fp16")]


class Halving:
    """An engine and a predictor whose times are shared by the threads. Each run needs a byte more."""

    runs = 0

    def bench(self, _cfg: Path, _weights: Path, options: EngineOptions, **_: object) -> dict[str, Any]:
        # Other programs disturb the first rounds.
        layer = (1e6 + (1e5 if self.runs < 6 else 0)) / options.threads
        rows = [{"index": index, "ns": layer, "algorithm": "gemm", "bytes": 10 + index} for index in range(5)]
        self.runs += 1
        return {"min_ns": 5 * layer, "peak_rss_bytes": 1000 + self.runs, "layers": rows}

    def predict(self, profile: float, threads: int) -> Any:
        return SimpleNamespace(milliseconds=profile / threads, layers={0: profile / threads})


@pytest.mark.parametrize("threads", [1, 4])
def test_this_machine_is_measured_with_so_many_threads(threads: int) -> None:
    timer = MeasuredTimer(model=MODEL, engine=cast("HostEngine", Halving()), threads=threads)
    first, last = timer.time(ASSIGNMENTS)
    assert (first.memory_bytes, last.memory_bytes) == (1015, 1016)  # the most of eight rounds
    for timed in (first, last):
        assert timed.moved == [10, 11, 12, 13, 14]
        assert timed.algorithms == ["gemm"] * 5
        assert timed.milliseconds == pytest.approx(5 / threads)
        assert timed.layers.tolist() == pytest.approx([1 / threads] * 5)


@pytest.mark.parametrize("threads", [1, 4])
def test_a_board_is_predicted_with_so_many_threads(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def profile(inferences: Sequence[engine_run.Inference]) -> list[dict[int, engine_run.ProfiledRun]]:
        assert [list(inference.threads) for inference in inferences] == [[threads]] * len(inferences)
        layers = [
            LayerResult(
                index=0,
                type="convolutional",
                precision="fp32",
                executed="fp32",
                isa="neon",
                algorithm="gemm",
                ns=1,
                conversion_ns=0,
                bytes=10,
            )
        ]
        bench = BenchResult(samples_ns=[1], arena_bytes=700, weight_bytes=80, layers=layers)
        return [{threads: (cast("Any", 8.0), bench)} for _ in inferences]

    monkeypatch.setattr(engine_run, "profile_emulated", profile)
    timer = PredictedTimer(
        model=MODEL, target=load_target("pi4"), predictor=cast("Any", Halving()), threads=threads
    )
    for timed in timer.time(ASSIGNMENTS):
        assert (timed.memory_bytes, timed.moved, timed.algorithms) == (780, [10], ["gemm"])
        assert timed.milliseconds == 8 / threads
        assert timed.layers.tolist() == [8 / threads, 0, 0, 0, 0]
