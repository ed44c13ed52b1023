"""harness search: on this machine and for an emulated board."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import cli
from harness.config.darknet_cfg import read_cfg
from harness.config.policy import applied
from harness.config.policy_file import read_policy
from harness.exporting.calibration import read_calibration
from harness.exporting.network import read_network
from harness.images.availability import emulation_missing
from harness.prediction.llvm import find_llvm
from harness.qemu.profiler import profiling_missing
from harness.report.pareto import MIB
from harness.report.search import unmet
from harness.report.search_page import answer
from harness.runtimes.engine import EngineOptions, HostEngine
from harness.search.assignment import Assignment
from harness.search.layer_costs import probed_costs
from harness.search.layer_timer import MeasuredTimer, Model
from harness.search.precision_graph import precision_graph

pytestmark = pytest.mark.engine

DIGITS = Path(__file__).resolve().parents[2] / "cfg" / "digits"
CALIBRATION = ["--calibration", str(DIGITS / "digits.calibration.json")]
NETWORK = ["--cfg", str(DIGITS / "digits.cfg"), "--weights", str(DIGITS / "digits.weights"), *CALIBRATION]
PICTURES = ["--dataset", str(DIGITS / "data"), "--limit", "16"]


def search(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert cli.main(["search", "--json", *NETWORK, *PICTURES, *words]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.emulation
def test_the_front_for_a_board_is_verified_and_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if missing := [*emulation_missing(), *profiling_missing()]:
        pytest.skip("; ".join(missing))
    if find_llvm() is None:
        pytest.skip("needs llvm-mca")
    found = search(
        capsys, "--target", "pi4", "--max-drop", "2", "--min-agreement", "90", "--out", str(tmp_path)
    )
    best = found["best"]
    assert best["verified"]["ms"] == pytest.approx(best["ms"], rel=0.07)
    assert best["agreement"] >= 0.9
    fp32, _, int8 = found["uniform"]
    assert str(fp32["accuracy_change"]) == "0.0"  # not -0.0
    assert best["ms"] < fp32["ms"]
    assert [row["ms"] for row in found["front"]] == sorted(row["ms"] for row in found["front"])
    assert found["evaluations"] > 2 * len(read_cfg(DIGITS / "digits.cfg").weighted)
    for place, row in enumerate(found["front"], start=1):
        cfg = read_cfg(Path(row["cfg"]))
        policy = read_policy(f"@{tmp_path / f'policy-{place}.yaml'}")
        assert applied(policy, read_cfg(DIGITS / "digits.cfg")).text == cfg.text
    assert (tmp_path / "ranges.json").read_bytes() == (DIGITS / "digits.calibration.json").read_bytes()
    weighted = {layer.index for layer in cfg.weighted}
    page = (tmp_path / "search.html").read_text()
    assert found["page"] == str(tmp_path / "search.html")
    assert answer(found) in page
    times = [layer["ms"] for layer in found["best_layers"]]
    assert sum(times) == pytest.approx(best["ms"])
    assert len(times) == len(cfg.layers)
    assert Counter(
        layer["precision"] for layer in found["best_layers"] if layer["index"] in weighted
    ) == Counter({name: count for name, count in best["layers"].items() if count})
    assert int8["layers"]["int8"] == len(cfg.weighted)
    # The same again, for this machine: no evaluation is repeated.
    again = search(capsys, "--target", "host", "--threads", "2", "--min-fps", "1", "--budget", "1s")
    assert (again["predicted"], again["threads"]) == (False, 2)
    assert again["executed"] < again["evaluations"]
    assert (
        cli.main(["search", *NETWORK, *PICTURES, "--target", "host", "--min-fps", "1e9", "--budget", "1s"])
        == 0
    )
    assert "No policy meets the limits" in capsys.readouterr().out


def test_the_best_policy_fits_into_the_memory_that_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--target", "host", "--min-agreement", "50", "--max-drop", "50"]
    none = search(capsys, *words, "--max-memory", "0.5", "--budget", "1s")
    assert none["best"] is None
    assert none["nearest"]["memory_bytes"] == min(row["memory_bytes"] for row in none["front"])
    assert unmet(none).startswith("No policy fits into 0.50 MiB")
    fp32, _, int8 = none["uniform"]
    limit = (fp32["memory_bytes"] + int8["memory_bytes"]) / 2
    found = search(capsys, *words, "--max-memory", str(limit / MIB))
    assert found["best"]["memory_bytes"] <= limit < fp32["memory_bytes"]
    assert found["best"]["verified"]["memory_bytes"] == pytest.approx(found["best"]["memory_bytes"], rel=0.07)
    assert found["nearest"] is None


def test_the_model_of_memory_is_that_of_the_engine(host_engine: HostEngine) -> None:
    """Of random policies. The scratch memory of kernels is not in it."""
    cfg, weights, ranges = (DIGITS / f"digits.{kind}" for kind in ("cfg", "weights", "calibration.json"))
    network = read_network(cfg, weights)
    graph = precision_graph(network, read_calibration(ranges, network))
    files = Model(network=read_cfg(cfg), weights=weights, calibration=ranges)
    _, memory = probed_costs(network, graph, MeasuredTimer(model=files, engine=host_engine))
    labels = np.random.default_rng(1).integers(0, 3, (8, len(graph.weighted))).astype(np.int8)
    options = EngineOptions(calibration=ranges)
    with files.written([Assignment.of_labels(graph.weighted, row) for row in labels]) as cfgs:
        benches = [
            [host_engine.bench(file, weights, options, warmup=0, runs=1) for _ in range(6)] for file in cfgs
        ]
    planned = [bench["live_bytes"] + bench["weight_bytes"] for bench, *_ in benches]
    assert (memory.bytes(labels) - memory.base).tolist() == pytest.approx(planned, rel=0.07)
    # Processes differ by 150 KB in the pages of the program that the kernel maps at once.
    peaks = [max(bench["peak_rss_bytes"] for bench in runs) for runs in benches]
    assert memory.bytes(labels).tolist() == pytest.approx(peaks, rel=0.05)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--limit", "3"], "3 pictures are too few"),
        (["--target", "nowhere"], "nowhere"),
        (["--max-drop", "101"], "--max-drop"),
    ],
)
def test_what_cannot_be_searched_is_one_error(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    try:
        status = cli.main(["search", *NETWORK, *PICTURES, "--target", "host", *words])
    except SystemExit as end:
        status = int(str(end.code))
    assert status == 2
    assert said in capsys.readouterr().err
