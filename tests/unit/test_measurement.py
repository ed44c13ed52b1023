"""One cell on a board: its processes, and the evaluation of their output."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_boards import FakeBoard
from networks import DETECTOR, write_sweep
from profiles import BOARD, NOP, Scripted, write_profile

from harness.boards.base import MOST_OUTPUT, Completed, RunTimeoutError
from harness.boards.paths import BoardPaths
from harness.config.darknet_cfg import parse_cfg
from harness.config.sweep_file import read_sweep
from harness.config.targets import load_target
from harness.errors import (
    BoardFaultError,
    BoardRefusedError,
    BoardUnreachableError,
    ConfigurationError,
    HarnessError,
    TargetMismatchError,
)
from harness.measure import cell_run as measurement
from harness.measure import rounds
from harness.measure.cell import Cell, Inputs, cell_key
from harness.measure.cell_run import measure
from harness.measure.result import CellOutcome
from harness.measure.watched_run import Watched, run_watched
from harness.prediction.core_model import load_core_model
from harness.prediction.predictor import Predictor
from harness.prediction.profile import LAYER_ENDED, PART_ENDED, RUN_ENDED
from harness.runtimes.base import Files
from harness.runtimes.engine_output import ImplausibleResultError
from harness.sweep.plan import cells, interleave

CFG = """\
[net]
width=8
height=8
channels=1
[convolutional]
int8=1
filters=1
size=1
activation=linear
"""
A, B, C = "a" * 64, "b" * 64, "c" * 64  # digests
ROW = {
    "index": 0,
    "type": "convolutional",
    "precision": "int8",
    "executed": "int8",
    "isa": "neon",
    "algorithm": "gemm",
    "ns": 5,
    "conversion_ns": 2,
    "bytes": 6,
}
BENCH: dict[str, Any] = {
    "samples_ns": [2_000_000, 4_000_000],
    "median_ns": 3_000_000,
    "min_ns": 2_000_000,
    "arena_bytes": 10,
    "weight_bytes": 20,
    "peak_rss_bytes": 30,
    "threads": 1,
    "isa": "neon",
    "layers": [ROW],
}


class ScriptedBoard(FakeBoard):
    """A board that answers from a script and notes what it was asked."""

    sensors = BoardPaths(sys="/nowhere", proc="/nowhere", vcgencmd="")

    def __init__(self, *, emulated: bool = False, **answers: object) -> None:
        super().__init__()
        self.emulated = emulated
        self.answers = {"bench": BENCH, "forward": {"digests": [A, B]}} | answers
        self.ran: list[list[str]] = []
        self.profiled: list[list[str]] = []
        self.counted: list[list[str]] = []
        self.counts = 789
        self.planned_lines = 0  # that one thread moves with the algorithms of several
        self.profiler = self.instruction_counter = self
        self.environments: list[dict[str, str]] = []

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        environment: Mapping[str, str] | None = None,
        most_output: int = MOST_OUTPUT,
    ) -> Completed:
        if argv[0] == "sh":
            if "bench" not in argv:  # reads sensors, of which there are none
                done = subprocess.run(argv, capture_output=True, text=True, check=False)
                return Completed(status=done.returncode, stdout=done.stdout, stderr=done.stderr)
            argv = argv[argv.index("bench") - 1 :]
        self.environments.append(dict(environment or {}))
        self.ran.append(list(argv))
        answer = self.answers[argv[1]]
        if callable(answer):
            answer = answer()
        if isinstance(answer, Completed):
            return answer
        return Completed(
            status=0, stdout=answer if isinstance(answer, str) else json.dumps(answer), stderr=""
        )

    def profile(
        self,
        argv: Sequence[str],
        output: Path,
        *,
        timeout: float,
        environment: Mapping[str, str] | None = None,
    ) -> Completed:
        self.environments.append(dict(environment or {}))
        self.profiled.append(list(argv))
        threads = int(argv[argv.index("--threads") + 1])
        parts = [(PART_ENDED + thread, 0, [(0, 12000 // threads)]) for thread in range(threads)]
        whole = [(LAYER_ENDED, 0, [(0, 12000)])] if threads == 1 else [*parts, (LAYER_ENDED, 0, [])]
        moved = self.planned_lines if "--planned-threads" in argv else 1000
        write_profile(output, [NOP], [*whole, (RUN_ENDED, moved, [(0, 345)])])
        return Completed(status=0, stdout=json.dumps(BENCH), stderr="")

    def count_instructions(
        self, argv: Sequence[str], *, timeout: float, environment: Mapping[str, str] | None = None
    ) -> tuple[Completed, int]:
        self.counted.append(list(argv))
        answer = json.dumps(BENCH | {"isa": "emulated"})
        return Completed(status=0, stdout=answer, stderr=""), self.counts


def measured(board: ScriptedBoard, cell: Cell, files: Files, expected: Sequence[str] = ()) -> CellOutcome:
    """What comes of all rounds."""
    rounds = measure(board, cell, files, expected)
    while True:
        try:
            next(rounds)
        except StopIteration as end:
            outcome: CellOutcome = end.value
            return outcome


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    text = (
        "models: [{name: net, cfg: net.cfg, weights: net.weights, dataset: data}]\n"
        "policies: [int8, fp32]\ntargets: [host]\nthreads: [2]\noptions: [{isa: avx2}]\n"
        "protocol: {rounds: 1, runs: 2}\n"
    )
    cell = cells(read_sweep(write_sweep(tmp_path, text)), lambda _: False)[0]
    return replace(cell, variant=replace(cell.variant, cfg=parse_cfg(CFG, "cfg")))


@pytest.fixture
def files() -> Files:
    return Files(
        program=Path("mpe"),
        cfg=Path("int8.cfg"),
        weights=Path("w"),
        calibration=Path("c"),
        samples=Path("s.npy"),
    )


def test_a_measured_cell(cell: Cell, files: Files) -> None:
    board = ScriptedBoard()
    outcome = measured(board, cell, files, [A, B])
    assert outcome.status == "done"
    assert outcome.samples_ns == [2_000_000, 4_000_000]
    assert [row.ns for row in outcome.layers] == [5]
    result = outcome.result
    assert result.fps == pytest.approx(1000 / 3)
    assert (result.p50_ms, result.arena_bytes, result.peak_rss_bytes) == (3, 10, 30)
    assert (result.digests, result.digest_matches_host) == ([A, B], True)
    assert result.instructions is None
    bench, forward = board.ran
    assert bench[:2] == ["/there/mpe", "bench"]
    for name, value in (
        ("--cfg", "/there/int8.cfg"),
        ("--calibration", "/there/c"),
        ("--threads", "2"),
        ("--isa", "avx2"),
    ):
        assert bench[bench.index(name) + 1] == value
        assert forward[forward.index(name) + 1] == value


def test_libraries_that_the_engine_loads_come_along(cell: Cell, files: Files) -> None:
    board = ScriptedBoard(emulated=True)
    chosen = replace(cell, options=replace(cell.options, quantizer="tensorflow"))
    libraries = [Path("sdk/libone.so"), Path("sdk/libtwo.so")]
    result = measured(board, chosen, replace(files, libraries=libraries)).result
    assert board.environments == [{"LD_LIBRARY_PATH": "/there"}] * 5
    for argv in (*board.ran, *board.profiled):
        assert argv[argv.index("--quantizer") + 1] == "tensorflow"
    assert result.conversion_ms == pytest.approx(2e-6)


def test_an_emulated_cell_is_profiled_on_one_thread(cell: Cell, files: Files) -> None:
    board = ScriptedBoard(emulated=True)
    board.target = replace(board.target, board=None)
    outcome = measured(board, cell, files)
    assert outcome.result.instructions == 12345
    assert str(outcome.result.prediction_unavailable_reason).startswith("no prediction for pi4: its file")
    assert [row.predicted_ns for row in outcome.layers] == [None]
    (argv,) = board.profiled
    assert argv[argv.index("--threads") + 1] == "1"  # the board's file does not tell its cores
    assert {"--mark", "--profile"} <= set(argv)


def test_a_real_boards_time_is_predicted_for_the_cell_and_its_layers(
    cell: Cell, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor = Predictor(board=BOARD, core=load_core_model("cortex-a53"), llvm=Scripted())
    monkeypatch.setattr(measurement, "find_predictor", lambda _: predictor)
    outcome = measured(ScriptedBoard(emulated=True), cell, files)
    result = outcome.result
    # A cycle a block; two threads on two cores halve the layer, and start and wait in a microsecond.
    assert result.predicted_ms is not None
    assert result.predicted_ms == pytest.approx(1e3 * (6000 + 1000 + 345) / 1e9 * 1.5)
    low, high = result.predicted_low_ms, result.predicted_high_ms
    assert low is not None
    assert high is not None
    assert low < result.predicted_ms < high
    assert (result.prediction_error, result.prediction_validated) == (0.2, True)
    assert result.bytes_moved == 0
    (layer,) = outcome.layers
    assert layer.predicted_ns == round(1e9 * 7000 / 1e9 * 1.5)
    # The only block does nothing with vectors.
    parts = (layer.predicted_compute_ns, layer.predicted_activation_ns, layer.predicted_memory_ns)
    assert (*parts, layer.predicted_conversion_ns) == (0, 0, 0, layer.predicted_ns)


def test_the_memory_traffic_of_several_threads_is_that_of_their_algorithms(
    cell: Cell, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor = Predictor(board=BOARD, core=load_core_model("cortex-a53"), llvm=Scripted())
    monkeypatch.setattr(measurement, "find_predictor", lambda _: predictor)
    board = ScriptedBoard(emulated=True)
    board.planned_lines = 7
    assert measured(board, cell, files).result.bytes_moved == 7 * 64
    threads = [argv[argv.index("--threads") + 1] for argv in board.profiled]
    planned = [
        argv[argv.index("--planned-threads") + 1 :] for argv in board.profiled if "--planned-threads" in argv
    ]
    assert (threads, planned) == (["1", "2", "1"], [["2"]])


def in_rounds(cell: Cell, **protocol: Any) -> Cell:
    return replace(cell, protocol=replace(cell.protocol, **{"rounds": 3, "runs": 6} | protocol))


def answering(*rounds: list[int]) -> ScriptedBoard:
    """A board whose runs take these times, one list after the other."""
    board = ScriptedBoard()
    benches = iter(
        BENCH | {"samples_ns": samples, "layers": [ROW | {"ns": min(samples)}]} for samples in rounds
    )
    board.answers["bench"] = lambda: json.dumps(next(benches))
    return board


def test_a_cell_is_measured_in_rounds_that_share_its_runs(cell: Cell, files: Files) -> None:
    board = answering([300, 300], [100, 100], [200, 200])
    rounds = measure(board, in_rounds(cell, min_seconds=1.5), files, [A, B])
    for number in (1, 2):
        next(rounds)
        assert len(board.ran) == number  # the others have their turn before the next one
    with pytest.raises(StopIteration) as end:
        next(rounds)
    outcome = end.value.value
    assert outcome.samples_ns == [300, 300, 100, 100, 200, 200]
    assert outcome.result.rounds == [2, 2, 2]
    assert [layer.ns for layer in outcome.layers] == [200]  # of the round in the middle
    assert [argv[argv.index("--runs") + 1] for argv in board.ran[:3]] == ["2"] * 3
    assert [argv[argv.index("--min-seconds") + 1] for argv in board.ran[:3]] == ["0.5"] * 3


def test_policies_alone_take_turns(tmp_path: Path) -> None:
    text = (
        "models: [{name: net, cfg: net.cfg, weights: net.weights, dataset: data}]\n"
        "policies: [int8, fp32]\ntargets: [host, pi4]\nthreads: [1, 2]\n"
    )
    planned = cells(read_sweep(write_sweep(tmp_path, text)), lambda target: target.name == "pi4")
    groups = interleave({str(number): cell for number, cell in enumerate(planned)}, {"host": 1, "pi4": 4})
    together = [[(cell.target.name, cell.threads, cell.policy) for _, cell in group] for group in groups]
    assert together == [
        [("host", 1, "int8"), ("host", 1, "fp32")],
        [("host", 2, "int8"), ("host", 2, "fp32")],
        *([("pi4", threads, policy)] for threads in (1, 2) for policy in ("int8", "fp32")),
    ]


def test_rounds_of_a_cell_that_drifts_are_replaced(cell: Cell, files: Files) -> None:
    warming, warm = [1000 - 10 * number for number in range(30)], [700, 710] * 15
    board = answering(warming, warm, warm, warm)
    outcome = measured(board, in_rounds(cell, rounds=1, reruns=3), files)
    assert list(outcome.samples_ns) == warm
    assert outcome.result.rounds == [len(warm)]
    board = answering(warming, warming, warming)
    assert list(measured(board, in_rounds(cell, rounds=1, reruns=2), files).samples_ns) == warming


@pytest.mark.parametrize(
    ("again", "allowed"),
    [
        ([0, 0, 0, 0, 0], [2, 2, 2, 1, 0]),  # two rounds are replaced
        ([1, 0, 0, 0], [2, 1, 1, 0]),  # one is made again, and one replaced
        ([0, 2, 0], [2, 2, 0]),
    ],
)
def test_a_cells_reruns_are_for_all_its_rounds(
    cell: Cell, files: Files, monkeypatch: pytest.MonkeyPatch, again: list[int], allowed: list[int]
) -> None:
    asked: list[int] = []

    def run(*arguments: Any, reruns: int, **more: Any) -> Watched:
        asked.append(reruns)
        watched = run_watched(*arguments, reruns=reruns, **more)
        return replace(watched, attempts=1 + again[len(asked) - 1])

    monkeypatch.setattr(rounds, "run_watched", run)
    drifting = [[1000 - 100 * number - 2 * sample for sample in range(30)] for number in range(len(again))]
    outcome = measured(answering(*drifting), in_rounds(cell, reruns=2), files)
    assert asked == allowed
    assert list(outcome.samples_ns) == [sample for samples in drifting[-3:] for sample in samples]


@pytest.mark.parametrize(
    ("threads", "cores", "expected"),
    [
        (1, None, 3),  # of a Raspberry Pi's four
        (3, None, 3),
        (4, None, None),
        (1, "3", 2),
        (2, "3,1", 2),
        (1, "0-3", 3),
        (4, "0-3", None),
        (1, "2", 3),
    ],
)
def test_sampling_keeps_off_the_cores_that_are_measured(
    cell: Cell, files: Files, threads: int, cores: str | None, expected: int | None
) -> None:
    class Asked(ScriptedBoard):
        masks: tuple[str, ...] = ()

        def run(
            self,
            argv: Sequence[str],
            *,
            timeout: float,
            environment: Mapping[str, str] | None = None,
            most_output: int = MOST_OUTPUT,
        ) -> Completed:
            if "bench" in argv:
                self.masks += (argv[5],)
            return super().run(argv, timeout=timeout, environment=environment, most_output=most_output)

    board = Asked()
    measured(board, replace(cell, threads=threads, options=replace(cell.options, cores=cores)), files)
    assert board.masks == ("" if expected is None else f"{1 << expected:x}",)


def test_rounds_that_only_differ_are_kept(cell: Cell, files: Files) -> None:
    levels = [[900, 910] * 5, [1000, 1010] * 5, [1100, 1110] * 5]
    outcome = measured(answering(*levels), in_rounds(cell, reruns=2), files)
    assert list(outcome.samples_ns) == [sample for each in levels for sample in each]


def test_a_sustained_cell_keeps_its_time_series(cell: Cell, files: Files) -> None:
    board = answering([1_000_000] * 50 + [2_000_000] * 50)
    sustained = replace(cell, protocol=cell.protocol.sustained_for(1800.0))
    outcome = measured(board, sustained, files)
    (argv,) = [argv for argv in board.ran if argv[1] == "bench"]
    assert float(argv[argv.index("--min-seconds") + 1]) == 1800
    points = outcome.result.time_series
    assert points
    assert (points[0].fps, points[-1].fps) == pytest.approx((1000, 500))
    assert points[-1].seconds == pytest.approx(0.15)
    assert cell_key(cell, Inputs(engine="", weights="")) != cell_key(sustained, Inputs(engine="", weights=""))


def test_without_samples_there_are_no_digests(cell: Cell, files: Files) -> None:
    board = ScriptedBoard()
    result = measured(board, cell, replace(files, samples=None)).result
    assert result.digest is None
    assert len(board.ran) == 1


def test_int8_that_differs_from_the_host_fails(cell: Cell, files: Files) -> None:
    with pytest.raises(HarnessError, match=r"fake computes other bits than the host: .* sample image 1"):
        measured(ScriptedBoard(), cell, files, [A, C])


def test_float_may_differ_from_the_host(cell: Cell, files: Files) -> None:
    board = ScriptedBoard(bench=BENCH | {"layers": [ROW | {"executed": "fp32"}]})
    result = measured(board, cell, files, [A, C]).result
    assert (result.digest_matches_host, result.bit_exact) == (False, False)
    assert measured(board, cell, files).result.digest_matches_host is None  # nothing to compare with


@pytest.mark.parametrize(
    ("bench", "kind", "message"),
    [
        (Completed(status=1, stdout="", stderr="mpe: w: truncated\n"), ConfigurationError, "w: truncated"),
        (Completed(status=-4, stdout="", stderr=""), TargetMismatchError, "lacks an instruction"),
        (Completed(status=-9, stdout="", stderr=""), HarnessError, "SIGKILL"),
        ("not JSON", ImplausibleResultError, "mpe bench on fake: its output is not JSON"),
        (BENCH | {"samples_ns": []}, ImplausibleResultError, "samples_ns: Expected `array` of length >= 1"),
        (
            BENCH | {"layers": [ROW, ROW | {"index": 1}]},
            ImplausibleResultError,
            "2 layers, but the cfg has 1",
        ),
        (
            BENCH | {"samples_ns": [10**14, 10**14]},
            ImplausibleResultError,
            "samples of 2e[+]05 s, but it ran for",
        ),
    ],
)
def test_every_failure_has_its_cause(
    cell: Cell, files: Files, bench: object, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        measured(ScriptedBoard(bench=bench), cell, files)


class BrokenBoard(ScriptedBoard):
    """A board that raises an error when it is to deploy, to run the engine, or to do anything else."""

    def __init__(self, what: str, error: HarnessError) -> None:
        super().__init__()
        self.what = what
        self.error = error

    def deploy(self, files: Mapping[str, Path]) -> Mapping[str, str]:
        if self.what == "deploy":
            raise self.error
        return super().deploy(files)

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        environment: Mapping[str, str] | None = None,
        most_output: int = MOST_OUTPUT,
    ) -> Completed:
        if self.what == ("engine" if {"bench", "forward"} & {*argv} else "sensors"):
            raise self.error
        return super().run(argv, timeout=timeout, environment=environment, most_output=most_output)


@pytest.mark.parametrize("emulated", [False, True])
@pytest.mark.parametrize(
    ("what", "error", "kind"),
    [
        ("deploy", HarnessError("no room", hint="Free some."), BoardFaultError),
        ("deploy", RunTimeoutError(["sha256sum"], "fake", 1), BoardFaultError),
        ("deploy", BoardRefusedError("another host key"), BoardRefusedError),
        ("deploy", ConfigurationError("net.weights: cannot be read"), ConfigurationError),
        ("engine", HarnessError("it was not started"), BoardFaultError),
        ("engine", BoardUnreachableError("gone"), BoardUnreachableError),
        ("engine", RunTimeoutError(["mpe"], "fake", 1), RunTimeoutError),
        ("sensors", HarnessError("its shell did not say"), BoardFaultError),
        ("sensors", RunTimeoutError(["sh"], "fake", 1), BoardFaultError),
    ],
)
def test_a_failure_of_the_board_is_not_a_failure_of_the_cell(
    cell: Cell, files: Files, what: str, error: HarnessError, kind: type[HarnessError], emulated: bool
) -> None:
    board = BrokenBoard(what, error)
    board.emulated = emulated
    if emulated and what == "sensors":  # which are not read there
        assert measured(board, cell, files).status == "done"
        return
    with pytest.raises(HarnessError) as raised:
        measured(board, cell, files)
    assert type(raised.value) is kind
    assert str(raised.value) == str(error)


@pytest.mark.parametrize("status", [126, 127])
def test_an_engine_that_cannot_be_executed_is_the_boards_fault(cell: Cell, files: Files, status: int) -> None:
    refused = Completed(status=status, stdout="", stderr="sh: 1: /there/mpe: Permission denied\n")
    with pytest.raises(BoardFaultError, match="Permission denied"):
        measured(ScriptedBoard(bench=refused), cell, files)


def test_a_folder_from_which_no_library_can_be_loaded_is_the_boards_fault(cell: Cell, files: Files) -> None:
    class Awkward(ScriptedBoard):
        def deploy(self, files: Mapping[str, Path]) -> Mapping[str, str]:
            return {name: f"/a:b/{path.name}" for name, path in files.items()}

    with pytest.raises(BoardFaultError, match="a library folder must not"):
        measured(Awkward(), cell, replace(files, libraries=[Path("libone.so")]))


def test_a_board_without_digests_fails(cell: Cell, files: Files) -> None:
    with pytest.raises(HarnessError, match="missing required field `digests`"):
        measured(ScriptedBoard(forward={}), cell, files)


def test_everything_that_determines_a_result_is_in_its_key(cell: Cell) -> None:
    inputs = Inputs(engine="e", weights="w")
    variant = cell.variant
    others = [
        replace(cell, threads=1),
        replace(cell, target=load_target("pi4")),
        replace(cell, emulated=True),
        replace(cell, runtime="other"),
        replace(cell, options=replace(cell.options, isa=None)),
        replace(cell, protocol=replace(cell.protocol, runs=11)),
        replace(cell, variant=replace(variant, cfg=parse_cfg(DETECTOR, "cfg"))),
        replace(cell, variant=replace(variant, tflite="full-integer")),
    ]
    keys = {cell_key(other, inputs) for other in [cell, *others]}
    keys |= {
        cell_key(cell, replace(inputs, **{name: "x"}))
        for name in ("engine", "weights", "calibration", "samples", "machine")
    }
    assert len(keys) == 1 + len(others) + 5
    same = [
        replace(cell, variant=replace(variant, policy="another name")),
        replace(cell, protocol=replace(cell.protocol, timeout=1)),
    ]
    assert {cell_key(other, inputs) for other in same} == {cell_key(cell, inputs)}


@pytest.fixture
def counting(tmp_path: Path) -> Cell:
    text = (
        "models: [{name: net, cfg: net.cfg, weights: random}]\npolicies: [fp32]\ntargets: [host]\n"
        "steps: [{name: one, isa: avx2}, {name: two, threads: 2}]\n"
        "protocol: {runs: 2, count_instructions: true}\n"
    )
    cell = cells(read_sweep(write_sweep(tmp_path, text)), lambda _: False)[0]
    return replace(cell, variant=replace(cell.variant, cfg=parse_cfg(CFG, "cfg")))


def test_instructions_are_counted_by_the_processor_where_it_lets_one(counting: Cell) -> None:
    board = ScriptedBoard(bench=BENCH | {"instructions": 456})
    result = measured(board, counting, Files(program=Path("mpe"), cfg=Path("c"), weights=Path("w"))).result
    assert result.instructions == 456
    assert result.instructions_isa is None
    assert board.counted == []


def test_instructions_are_counted_by_an_emulator_otherwise(counting: Cell) -> None:
    board = ScriptedBoard()
    files = Files(program=Path("mpe"), cfg=Path("c"), weights=Path("w"))
    result = measured(board, counting, files).result
    assert (result.instructions, result.instructions_isa) == (789, "emulated")
    (argv,) = board.counted
    assert {"--mark", "--isa"} <= set(argv)
    two_threads = replace(counting, threads=2)
    assert measured(board, two_threads, files).result.instructions is None
    unasked = replace(counting, protocol=replace(counting.protocol, count_instructions=False))
    assert measured(board, unasked, files).result.instructions is None
    assert len(board.counted) == 1


def test_a_cell_says_why_its_instructions_are_not_counted(
    counting: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise HarnessError("there is no emulator")

    board = ScriptedBoard()
    monkeypatch.setattr(board, "count_instructions", refuse)
    result = measured(board, counting, Files(program=Path("mpe"), cfg=Path("c"), weights=Path("w"))).result
    assert (result.instructions, result.instructions_unavailable_reason) == (
        None,
        "there is no emulator",
    )
