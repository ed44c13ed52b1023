"""Runtimes that are Python packages, from their wheels: on this machine, over SSH, on an emulated board."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from golden_outputs import golden_cases
from onnx import TensorProto
from onnx_models import model_of, node
from ssh_server import Server, running_server
from test_importing_golden import grid_of, real, same_rows
from test_importing_golden import model_of as golden_model
from tiny_sweep import query, run

from harness.accuracy.executor import FileExecutor
from harness.boards.emulated import EmulatedBoard
from harness.boards.host import HostBoard
from harness.boards.ssh.board import SshBoard
from harness.config.darknet_cfg import parse_cfg
from harness.config.policy import BUILT_IN, applied
from harness.config.sweep import Build, Calibration, Model, Options, Variant
from harness.config.targets import Target, load_target
from harness.images.availability import emulation_missing
from harness.importing.tflite_file import read_flat_model
from harness.measure.rounds import run_command
from harness.prediction.engine_run import profile_execution
from harness.qemu.profiler import profiling_missing
from harness.runtimes.base import Files, ModelFile, Runtime, Workload, find_runtime
from harness.runtimes.engine import EngineOptions, HostEngine
from harness.sdk.packages import UNPACKED
from harness.sweep.evaluation import write_calibration_pictures
from harness.sweep.model_file import exported_file

DIGITS = Path(__file__).resolve().parents[2] / "cfg" / "digits"
YUNET, WAKE = "yunet-n/yunet_n_320_320.onnx", "mlperf-tiny/vww_96_int8.tflite"
YOLOX = "yolox-nano/yolox_nano_fp16.tflite"
# Whose outputs are recorded: channels first, fp16 weights with channels first, and int8 with channels last.
RECORDED = {
    YUNET: ("onnxruntime", "openvino", "mnn", "ncnn"),
    YOLOX: ("litert",),
    WAKE: ("litert", "openvino"),
    "mlperf-tiny/pretrainedResnet.tflite": ("armnn",),  # in CpuRef, which is slow
}


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "runtime"), [(name, runtime) for name, runtimes in RECORDED.items() for runtime in runtimes]
)
def test_outputs_are_those_that_were_recorded(name: str, runtime: str, shared_data: Path) -> None:
    folder = shared_data / "import"
    model, cases = golden_model(folder, name), list(golden_cases(folder, name))
    file = ModelFile(path=folder / name, outputs=dict(enumerate(output.name for output in model.outputs)))
    images = np.stack([case.picture for case in cases]).astype(np.float32)
    found = find_runtime(runtime).outputs(file, images, threads=1, options=Options())
    assert list(found) == list(range(len(model.outputs)))
    for number, output in enumerate(model.outputs):
        for case, values in zip(cases, found[number], strict=True):
            golden = case.outputs[number]
            rows = same_rows(values.reshape(output.shape), case.rows[number], golden)
            if name == WAKE:
                golden = real(golden, grid_of(model, output.section))
            assert np.abs(rows - golden).max() <= 1e-5 * np.abs(golden).max()


def digits() -> Model:
    return Model(
        name="digits",
        cfg=DIGITS / "digits.cfg",
        weights=DIGITS / "digits.weights",
        calibration=Calibration(dataset=DIGITS / "calibration", images=16),
        resize="stretch",
    )


@pytest.mark.engine
@pytest.mark.parametrize(("policy", "tolerance"), [("fp32", 1e-5), ("int8", 0.1)])
def test_heads_of_an_export_to_tensorflow_lite_are_the_engines(
    policy: str, tolerance: float, host_engine: HostEngine, tmp_path: Path
) -> None:
    pytest.importorskip("tensorflow")
    model = digits()
    variant = Variant(model=model, policy=policy, cfg=applied(BUILT_IN[policy], model.network))
    cfg, pictures = tmp_path / "digits.cfg", tmp_path / "pictures.npy"
    cfg.write_text(variant.cfg.text)

    def write(out: Path) -> None:
        assert isinstance(model.calibration, Calibration)
        write_calibration_pictures(host_engine, model, model.calibration, out)

    write(pictures)
    images = np.load(pictures)[:2]
    assert images.shape == (2, 3, 128, 128)
    expected = host_engine.forward(model.cfg, model.weights, images, EngineOptions()).heads
    for runtime in map(find_runtime, ("litert", "armnn")):
        ranges = DIGITS / "digits.calibration.json"
        file = exported_file(runtime.export, variant, cfg, ranges, tmp_path / "exports", pictures=write)
        executor = FileExecutor(runtime=runtime, file=file, options=Options(), engine=host_engine)
        heads = executor.forward(cfg, model.weights, images, EngineOptions()).heads
        for layer in (15, 22):
            difference = heads[layer].reshape(expected[layer].shape) - expected[layer]
            assert np.linalg.norm(difference) <= tolerance * np.linalg.norm(expected[layer])
    flat = read_flat_model(file.path)
    computed = {
        flat.tensors[operator.inputs[0]].type
        for operator in flat.operators
        if operator.name not in ("QUANTIZE", "DEQUANTIZE")
    }
    assert computed == {"int8" if policy == "int8" else "float32"}


def exported_digits(model: Model, runtime: Runtime, folder: Path) -> ModelFile:
    variant = Variant(model=model, policy="fp32", cfg=applied(BUILT_IN["fp32"], model.network))
    return exported_file(runtime.export, variant, model.cfg, None, folder)


def files_of(model: Model, runtime: Runtime, file: ModelFile, target: Target) -> Files:
    return Files(
        program=runtime.prepare(target, Build()).path,
        cfg=model.cfg,
        weights=model.weights,
        model=file.path,
        libraries=runtime.libraries(target, Options()),
    )


@pytest.mark.engine
def test_tensorflows_library_computes_the_heads_of_the_engine(
    host_engine: HostEngine, tmp_path: Path
) -> None:
    pytest.importorskip("tensorflow")
    model, runtime = digits(), find_runtime("tensorflow")
    file = exported_digits(model, runtime, tmp_path)
    images = np.random.default_rng(4).random((2, 3, 128, 128), np.float32)
    expected = host_engine.forward(model.cfg, model.weights, images, EngineOptions()).heads
    executor = FileExecutor(runtime=runtime, file=file, options=Options(), engine=host_engine)
    heads = executor.forward(model.cfg, model.weights, images, EngineOptions()).heads
    for layer in (15, 22):
        np.testing.assert_allclose(heads[layer].reshape(expected[layer].shape), expected[layer], atol=1e-3)

    target = load_target("host")
    files = files_of(model, runtime, file, target)
    with HostBoard(target) as board:
        paths = board.deploy(runtime.deployed_files(files, board))
        execution = runtime.execution(board, paths, {}, Workload(network=model.network, threads=1))
        # It fails if more threads than asked for work at a time.
        result = run_command(board, execution.bench(warmup=1, runs=3, min_seconds=0.3), 60)
    assert result.threads == 1
    assert len(result.samples_ns) >= 3


@pytest.mark.parametrize(
    ("runtime", "last", "made_of"),
    [
        ("onnxruntime", "NonZero", TensorProto.INT64),
        ("openvino", "NonZero", TensorProto.INT64),
        ("mnn", "Exp", TensorProto.FLOAT),  # its sessions have no shapes that depend on values
        ("ncnn", "Exp", TensorProto.FLOAT),
    ],
)
def test_a_tensor_before_the_post_processing_is_an_output(
    runtime: str, last: str, made_of: int, tmp_path: Path
) -> None:
    made = model_of([node("Relu", "x", "boxes"), node(last, "boxes")])
    made.graph.output[0].type.tensor_type.elem_type = made_of
    file = ModelFile(path=tmp_path / "net.onnx", outputs={3: "boxes"})
    file.path.write_bytes(made.SerializeToString())
    images = np.random.default_rng(2).normal(size=(2, 4, 6, 8)).astype(np.float32)
    found = find_runtime(runtime).outputs(file, images, threads=1, options=Options())
    np.testing.assert_array_equal(found[3].reshape(images.shape), np.maximum(images, 0))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("sshd")) as server:
        yield server


def test_a_board_unpacks_the_packages_once_and_keeps_nothing_else(server: Server, tmp_path: Path) -> None:
    model = tmp_path / "net.onnx"
    made = model_of([node("Conv", "x w")], constants={"w": np.ones((2, 4, 3, 3), np.float32)})
    made.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    model.write_bytes(made.SerializeToString())
    network = parse_cfg(
        "[net]\nwidth=8\nheight=6\nchannels=4\n[convolutional]\nfilters=2\nsize=3\n", "net.cfg"
    )
    runtime = find_runtime("onnxruntime")
    files = Files(
        program=runtime.prepare(load_target("pi4"), Build()).path, cfg=model, weights=model, model=model
    )
    for _ in range(2):  # the second session finds everything
        with SshBoard("shelf", load_target("pi4"), server.address) as board:
            paths = board.deploy(runtime.deployed_files(files, board))
            execution = runtime.execution(board, paths, {}, Workload(network=network))
            result = run_command(board, execution.bench(warmup=1, runs=3, min_seconds=0), 60)
        assert result.layers[0].type == "Conv"
        assert result.layers[0].executed == "fp32"
        assert result.threads in (None, 1)  # three runs are mostly too short to tell
        kept = [path for path in (server.folder / "board").rglob("*") if path.is_file()]
        inside = [path for path in kept if not any(part.endswith(UNPACKED) for part in path.parts)]
        stored = sorted(path.name for path in inside if path.parent.parent.name == "objects")
        assert stored == sorted(Path(path).name for path in paths.values())
        assert not [path for path in kept if "sessions" in path.parts or path.suffix == ".pyc"]


@pytest.mark.data
@pytest.mark.emulation
def test_arm_nn_runs_an_int8_model_and_names_its_backends(shared_data: Path) -> None:
    """In the Arm Compute Library, which this machine does not have, and in the portable Python."""
    target = load_target("jetson-nano")
    if missing := emulation_missing(target):
        pytest.skip("; ".join(missing))
    model = shared_data / "import" / "mlperf-tiny" / "pretrainedResnet_quant.tflite"
    network = parse_cfg(
        "[net]\nwidth=32\nheight=32\nchannels=3\n[convolutional]\nfilters=1\nsize=1\n", "net.cfg"
    )
    runtime = find_runtime("armnn")
    files = Files(program=runtime.prepare(target, Build()).path, cfg=model, weights=model, model=model)
    with EmulatedBoard(target) as board:
        paths = board.deploy(runtime.deployed_files(files, board))
        execution = runtime.execution(board, paths, {}, Workload(network=network, threads=1))
        result = run_command(board, execution.bench(warmup=0, runs=1, min_seconds=0), 200)
    assert len(result.samples_ns) == 1
    found = [(layer.type, layer.algorithm) for layer in result.layers]
    assert found.count(("Convolution2d", "CpuAcc")) == 9


@pytest.mark.emulation
@pytest.mark.parametrize(
    ("name", "instructions", "divided"), [("tensorflow", 1e7, False), ("ncnn", 5e6, True)]
)
def test_a_profiler_of_a_board_counts_a_runtimes_work(
    name: str, instructions: float, *, divided: bool, tmp_path: Path
) -> None:
    """It counts the thread that asks: in a pool's thread, an inference would look almost free. ncnn's threads
    divide the work equally, TensorFlow's by chance."""
    if missing := [*emulation_missing(), *profiling_missing()]:
        pytest.skip("; ".join(missing))
    pytest.importorskip("tensorflow")
    model, runtime, target = digits(), find_runtime(name), load_target("pi4")
    file = exported_digits(model, runtime, tmp_path)
    files = files_of(model, runtime, file, target)
    with EmulatedBoard(target) as board:
        paths = board.deploy(runtime.deployed_files(files, board))
        execution = runtime.execution(board, paths, {}, Workload(network=model.network))
        runs = profile_execution(board, execution, [4], 200)
    assert runs is not None
    profiled, bench = runs[4]
    assert len(bench.samples_ns) == 1
    assert profiled.alone.instructions > instructions
    assert (profiled.several is not None) == divided
    if profiled.several is not None:
        share = profiled.several.instructions / profiled.alone.instructions
        assert 0.25 < share < 0.75


SWEEP = """\
models:
  - {{name: yunet, model: {folder}/yunet-n/yunet_n_320_320.onnx}}
  - {{name: wake, model: {folder}/mlperf-tiny/vww_96_int8.tflite}}
policies: [as-is]
targets: [host, pi4]
runtimes: [engine, onnxruntime, litert, mnn]
protocol: {{warmup: 1, runs: 5, min_seconds: 0, rounds: 1}}
emulated: {{images: 0}}
"""
# The second and third are exports, the last is converted.
RUN = {
    ("yunet", "onnxruntime"),
    ("wake", "onnxruntime"),
    ("yunet", "litert"),
    ("wake", "litert"),
    ("yunet", "mnn"),
}
CAUSES = {
    "mnn": "MNN's quantiser records ranges of its own, and has no pictures",
}


@pytest.mark.data
@pytest.mark.engine
@pytest.mark.emulation
def test_a_sweep_compares_runtimes_and_names_what_they_cannot_run(shared_data: Path, tmp_path: Path) -> None:
    if missing := [*emulation_missing(), *profiling_missing()]:
        pytest.skip("; ".join(missing))
    sweep = tmp_path / "sweep.yaml"
    sweep.write_text(SWEEP.format(folder=shared_data / "import"))
    data = run(sweep, status=6)
    assert data["environment"]["onnxruntime"] == find_runtime("onnxruntime").version
    for cell in data["cells"]:
        other = (cell["model"], cell["runtime"]) in RUN
        if cell["runtime"] != "engine" and not other:
            assert cell["status"] == "failed"
            assert CAUSES[cell["runtime"]] in cell["error"]
            continue
        assert cell["status"] == "done"
        assert (cell["interpreter_rss_bytes"] is not None) is other
        if cell["emulated"]:
            assert cell["predicted_low_ms"] < cell["predicted_ms"] < cell["predicted_high_ms"]
            assert cell["instructions"] > 1e6
        else:
            assert cell["fps"] > 1
    operators = query(
        sweep,
        "SELECT DISTINCT type FROM layers JOIN cells USING (revision) JOIN plan ON cell = key "
        "WHERE runtime = 'onnxruntime' AND NOT emulated",
    )
    assert ("Conv",) in operators
