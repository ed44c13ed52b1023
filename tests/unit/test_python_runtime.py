"""Runtimes that are Python packages: the program for boards, with a fake runtime in this machine's Python."""

from __future__ import annotations

import json
import platform
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fake_session
import numpy as np
import onnx
import pytest
from fake_boards import FakeBoard
from flat_models import FlatOperator, FlatTensor, flat_model
from onnx import TensorProto
from onnx_models import model_of, node

from harness.boards.base import Completed, RunTimeoutError
from harness.boards.host import HostBoard
from harness.config.core_list import parse_cores
from harness.config.darknet_cfg import parse_cfg
from harness.config.runtimes import RUNTIMES
from harness.config.sweep import Build, Options
from harness.config.targets import load_target
from harness.errors import BoardFaultError, ConfigurationError, HarnessError, TargetMismatchError
from harness.runtimes import python_runtime
from harness.runtimes.base import BenchResult, Execution, Files, ModelFile, Workload, find_runtime
from harness.runtimes.engine_output import ImplausibleResultError
from harness.runtimes.mnn_runtime import MnnRuntime
from harness.runtimes.ncnn_runtime import NcnnRuntime
from harness.runtimes.on_board import bench as protocol
from harness.runtimes.on_board.armnn_profile import operators as armnn_operators
from harness.runtimes.on_board.onnxruntime_profile import operators
from harness.runtimes.on_board.openvino_profile import operators as openvino_operators
from harness.runtimes.on_board.tensors import Tensor, layout, shapes_of
from harness.runtimes.onnx_file import in_single
from harness.runtimes.onnxruntime_runtime import OnnxRuntime
from harness.runtimes.python_output import failure
from harness.runtimes.python_program import ISOLATED, program_file, python_of
from harness.runtimes.python_runtime import PythonRuntime
from harness.sdk.packages import UNPACKED, Packages, Python, read_packages
from harness.sdk.wheels import WheelPin

SHARED = [name for name in RUNTIMES if isinstance(find_runtime(name), PythonRuntime)]
FROM_WHEELS = [name for name in SHARED if name != "tensorflow" and not read_packages(name).debs]
NETWORK = parse_cfg("[net]\nwidth=5\nheight=4\nchannels=3\n[convolutional]\nfilters=1\nsize=1\n", "net.cfg")
WORKLOAD = Workload(network=NETWORK)


class FakeRuntime(PythonRuntime):
    name = "fake"
    session = "fake_session"
    packages = Packages(
        version="1.2.3",
        wheels=tuple(
            WheelPin(package="fake", version="1.2.3", python=python, platform=machine, sha256="0" * 64)
            for python, machine in (
                (
                    f"{sys.version_info.major}.{sys.version_info.minor}",
                    f"manylinux_2_17_{platform.machine()}",
                ),
                ("3.11", "manylinux_2_17_aarch64"),
            )
        ),
    )


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    program_file.cache_clear()
    yield
    program_file.cache_clear()


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeRuntime:
    """Its packages are the fake session and this environment's NumPy."""
    archive = tmp_path / "packages.zip"
    archive.write_bytes(b"")
    folder = tmp_path / f"packages.zip{UNPACKED}"
    folder.mkdir()
    (folder / "fake_session.py").symlink_to(str(fake_session.__file__))
    numpy = Path(np.__file__).parent
    for path in (numpy, numpy.with_name("numpy.libs")):
        if path.exists():
            (folder / path.name).symlink_to(path)
    monkeypatch.setattr(python_runtime, "archive_for", lambda *_: archive)
    monkeypatch.setattr(python_runtime, "packages_sha256", lambda _: "pins")
    return FakeRuntime()


@pytest.fixture
def board() -> Iterator[HostBoard]:
    with HostBoard(load_target("host")) as opened:
        yield opened


def execution(
    runtime: FakeRuntime,
    board: HostBoard,
    folder: Path,
    model: Mapping[str, Any],
    workload: Workload = WORKLOAD,
) -> Execution:
    file = folder / "net.fake"
    file.write_text(repr(dict(model)))
    program = runtime.prepare(board.target, Build()).path
    files = Files(program=program, cfg=file, weights=file, model=file)
    return runtime.execution(board, board.deploy(runtime.deployed_files(files, board)), {}, workload)


def run(runtime: FakeRuntime, board: HostBoard, folder: Path, **model: Any) -> BenchResult:
    command = execution(runtime, board, folder, model).bench(warmup=2, runs=5, min_seconds=0.05)
    completed = board.run(command.argv, timeout=60)
    if completed.status != 0:
        raise command.failure(completed.status, completed.stderr)
    return command.read(completed.stdout, 60.0)


def test_it_measures_until_runs_and_seconds_are_reached(
    runtime: FakeRuntime, board: HostBoard, tmp_path: Path
) -> None:
    result = run(runtime, board, tmp_path, sleep=0.002)
    assert len(result.samples_ns) >= 5
    assert sum(result.samples_ns) >= 0.05e9 > sum(result.samples_ns[:-1])
    assert min(result.samples_ns) >= 0.002e9
    assert result.threads is None or result.threads == 1
    assert 1 << 20 < (result.interpreter_rss_bytes or 0) <= (result.peak_rss_bytes or 0) < 1 << 30


def test_it_leaves_nothing_behind(runtime: FakeRuntime, board: HostBoard, tmp_path: Path) -> None:
    run(runtime, board, tmp_path)
    before = sorted(tmp_path.rglob("*"))
    run(runtime, board, tmp_path)
    assert sorted(tmp_path.rglob("*")) == before
    assert not list(tmp_path.rglob("__pycache__"))


def test_threads_are_those_that_work_at_a_time() -> None:
    second, tick = 10**9, 10**7
    before = {"1": 5 * tick, "2": tick}
    for worked, expected in (
        ({"1": second}, 1),
        ({"1": second // 2, "2": second // 2, "3": 0}, 1),  # two pools that take turns
        ({"1": second, "2": second}, 2),
        ({"1": second, "2": second, "3": second}, 3),
    ):
        after = {thread: before.get(thread, 0) + more for thread, more in worked.items()}
        assert protocol.threads_at_a_time(before, after, second) == expected
    for threads in (1, 2, 4, 8, 16):  # each seems to have worked a tick longer than it did
        after = {str(thread): second // 10 + tick for thread in range(threads)}
        assert protocol.threads_at_a_time(dict.fromkeys(after, 0), after, second // 10) == threads
    assert protocol.threads_at_a_time({"1": 0}, {"1": 4 * tick}, tick // 10) is None  # within a tick
    assert protocol.threads_at_a_time({}, {}, second) is None  # the system does not tell
    times = [protocol.thread_times()]
    end = time.thread_time() + 0.05
    while time.thread_time() < end:
        pass
    times.append(protocol.thread_times())
    assert max(times[1][thread] - times[0].get(thread, 0) for thread in times[1]) >= 0.045e9


@pytest.mark.parametrize("shape", [(1, 4, 5, 3), (1, 3, 3, 3)])  # those of a cube do not tell
def test_channels_that_are_last_come_first(
    runtime: FakeRuntime, tmp_path: Path, shape: tuple[int, ...]
) -> None:
    file = tmp_path / "net.fake"
    file.write_text(repr({"shape": shape, "wide": True}))
    _, height, width, channels = shape
    images = np.random.default_rng(4).random((2, channels, height, width), np.float32)
    model = ModelFile(path=file, outputs={3: "a"}, channels_last=True)
    found = runtime.outputs(model, images, threads=1, options=Options())
    # The fake adds a column number.
    np.testing.assert_array_equal(found[3], (images + np.arange(width, dtype=np.float32))[:, None])


def test_an_exception_of_the_runtime_is_the_cause(
    runtime: FakeRuntime, board: HostBoard, tmp_path: Path
) -> None:
    with pytest.raises(
        HarnessError, match="fake on host: ended with status 1: RuntimeError: no such operator"
    ):
        run(runtime, board, tmp_path, **{"raise": "no such operator"})


def test_a_crash_is_named(runtime: FakeRuntime, board: HostBoard, tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="fake on host: ended by SIGABRT"):
        run(runtime, board, tmp_path, abort=True)


def test_a_runtime_that_hangs_is_ended(runtime: FakeRuntime, board: HostBoard, tmp_path: Path) -> None:
    command = execution(runtime, board, tmp_path, {"sleep": 60}).bench(warmup=0, runs=1, min_seconds=0)
    with pytest.raises(RunTimeoutError):
        board.run(command.argv, timeout=0.5)


def test_an_input_that_does_not_fit_the_network_is_an_error(
    runtime: FakeRuntime, board: HostBoard, tmp_path: Path
) -> None:
    with pytest.raises(HarnessError, match=r"the input in has the shape \(1, 3, 9, 9\)"):
        run(runtime, board, tmp_path, shape=(1, 3, 9, 9))


def test_threads_stay_on_the_chosen_cores(runtime: FakeRuntime, board: HostBoard, tmp_path: Path) -> None:
    chosen = replace(WORKLOAD, options=Options(cores="0"))
    command = execution(runtime, board, tmp_path, {}, chosen).bench(warmup=0, runs=1, min_seconds=0)
    assert command.argv[command.argv.index("--cores") + 1] == "0" == ",".join(map(str, parse_cores("0")))
    assert board.run(command.argv, timeout=60).status == 0


def test_the_program_gets_the_options_of_its_runtime(
    runtime: FakeRuntime, board: HostBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeRuntime, "options", ("cores", "xnnpack"))
    for options, words in ((Options(), []), (Options(xnnpack=False), ["--option=xnnpack=false"])):
        chosen = replace(WORKLOAD, options=options)
        command = execution(runtime, board, tmp_path, {}, chosen).bench(warmup=0, runs=1, min_seconds=0)
        assert [word for word in command.argv if word.startswith("--option")] == words
        assert board.run(command.argv, timeout=60).status == 0


PRINTED = {
    "version": "1.2.3",
    "samples_ns": [1_000_000] * 3,
    "threads": 1,
    "interpreter_rss_bytes": 10,
    "peak_rss_bytes": 20,
    "layers": [{"type": "Conv", "computed": "uint8", "provider": "CPU", "ns": 5}],
}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"samples_ns": []}, "samples_ns"),
        ({"samples_ns": [1_000_000] * 2}, "2 samples, but 3 runs"),
        ({"samples_ns": [1, 1, 1]}, "no inference is faster"),
        ({"samples_ns": "fast"}, "samples_ns"),
        ({"version": "9.9.9"}, "version is 9.9.9, and 1.2.3 was deployed"),
        ({"version": "\x1b[2J"}, "version"),
        ({"threads": 2}, "2 threads worked at a time"),
        ({"interpreter_rss_bytes": 30}, "more memory than the whole process"),
        ({"peak_rss_bytes": -1}, "peak_rss_bytes"),
        ({"layers": [{"type": "a b", "computed": "", "provider": "", "ns": 1}]}, "type"),
    ],
)
def test_nonsense_is_implausible(
    runtime: FakeRuntime, board: HostBoard, tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    command = execution(runtime, board, tmp_path, {}).bench(warmup=0, runs=3, min_seconds=0)
    assert command.read(json.dumps(PRINTED), 1.0).layers[0].executed == "int8"
    with pytest.raises(ImplausibleResultError, match=message):
        command.read(json.dumps(PRINTED | changed), 1.0)
    with pytest.raises(ImplausibleResultError, match="not JSON"):
        command.read("Segmentation fault", 1.0)


@pytest.mark.parametrize(
    ("model", "step"),
    [
        ({"shape": (1, 3, 4, 5)}, 1),
        ({"shape": (0, 4, 5, 3)}, 1),  # channels last
        ({"shape": (60,)}, 1),
        (
            {"shape": (1, 4, 5, 3), "dtype": "int8", "grid": (0.5, -3)},
            0.5,
        ),  # one more of the int8 is half more
    ],
)
def test_outputs_are_real_numbers_of_each_image(
    runtime: FakeRuntime, tmp_path: Path, model: dict[str, Any], step: float
) -> None:
    file = tmp_path / "net.fake"
    file.write_text(repr(model))
    images = np.random.default_rng(1).integers(-8, 8, (2, 3, 4, 5)).astype(np.float32)
    found = runtime.outputs(
        ModelFile(path=file, outputs={7: "a", 9: "--b"}), images, threads=2, options=Options()
    )
    assert list(found) == [7, 9]
    last = model["shape"][1:] == (4, 5, 3)
    expected = (images.transpose(0, 2, 3, 1) if last else images) + step
    assert found[7].dtype == np.float32
    np.testing.assert_array_equal(found[7].reshape(-1), expected.reshape(-1))
    np.testing.assert_array_equal(found[7], found[9])


def test_a_model_is_converted_once(runtime: FakeRuntime, tmp_path: Path) -> None:
    class Converting(FakeRuntime):
        def converted_name(self, path: Path) -> str:
            return f"{path.stem}.made"

    converting = Converting()
    file = tmp_path / "net.fake"
    file.write_text("{'shape': (1, 3, 4, 5)}")
    images = np.ones((1, 3, 4, 5), np.float32)
    found = converting.outputs(ModelFile(path=file, outputs={0: "a"}), images, threads=1, options=Options())
    np.testing.assert_array_equal(found[0].reshape(images.shape), images + 1)
    made = converting.executed_file(file)
    assert (made.name, made.read_text()) == ("net.made", file.read_text())
    written = made.stat().st_mtime_ns
    assert converting.executed_file(file).stat().st_mtime_ns == written
    file.write_text("{'unreadable': True}")
    with pytest.raises(HarnessError, match=r"fake's converter on net\.fake: .* wrote no file"):
        converting.executed_file(file)
    assert list(made.parent.parent.iterdir()) == [made.parent]


def test_a_converter_gets_pictures_and_what_stays_in_float(runtime: FakeRuntime, tmp_path: Path) -> None:
    file, pictures, made = (tmp_path / name for name in ("net.fake", "pictures.npy", "net.made"))
    file.write_text("{}")
    np.save(pictures, np.ones((2, 3, 4, 5), np.float32))
    runtime.convert(file, made, ["--pictures", str(pictures), "--in-float=a/b", "--in-float=-c"])
    assert made.read_text() == "(2, 3, 4, 5) ['a/b', '-c']"


def test_an_export_in_mnns_format_is_executed_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "net.mnn"
    file.write_bytes(b"1")
    runtime = MnnRuntime()
    model = ModelFile(path=file, outputs={0: "head_0"})
    assert runtime.executed_file(file) == file
    assert runtime.with_outputs(model, tmp_path) == model


def test_mnn_computes_in_fp16_where_all_weights_have_it(tmp_path: Path) -> None:
    def name(*nodes: onnx.NodeProto, **weights: np.dtype[Any]) -> str:
        constants = {name: np.ones((4, 4, 1, 1), dtype) for name, dtype in weights.items()}
        path = tmp_path / "net.onnx"
        path.write_bytes(model_of(list(nodes), constants=constants).SerializeToString())
        return MnnRuntime().converted_name(path)

    half, single = np.dtype("float16"), np.dtype("float32")
    first, second = node("Conv", "x w", "y1"), node("Conv", "y1 v", "y")
    assert name(first, second, w=half, v=half) == "net.fp16.mnn"
    assert name(first, second, w=half, v=single) == "net.mnn"
    assert name(node("Relu", "x", "y")) == "net.mnn"
    with pytest.raises(ConfigurationError, match="has QuantizeLinear, which its converter does not"):
        name(node("QuantizeLinear", "x s", "y"), s=single)


def test_ncnn_numbers_outputs_and_reads_float32(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    half = np.full((4, 4, 1, 1), 1.5, np.float16)
    layers = [
        node("Cast", "x", "x1", to=TensorProto.FLOAT16),
        node("Conv", "x1 w", "y1"),
        node("Cast", "y1", "y", to=TensorProto.FLOAT),
    ]
    path.write_bytes(model_of(layers, constants={"w": half}).SerializeToString())
    runtime = NcnnRuntime()
    assert runtime.converted_name(path) == "net.fp16.ncnn"
    found = runtime.with_outputs(ModelFile(path=path, outputs={4: "y1", 7: "y"}), tmp_path)
    assert found.outputs == {4: "out1", 7: "out0"}
    (tmp_path / "copy").mkdir()
    graph = onnx.load(in_single(path, tmp_path / "copy")).graph
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(graph.initializer[0]), half.astype(np.float32))
    assert [each.attribute[0].i for each in graph.node[::2]] == [TensorProto.FLOAT] * 2


def test_ncnn_takes_int8_with_known_ranges(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    runtime = NcnnRuntime()
    path.write_bytes(model_of([node("DequantizeLinear", "x s", "y")]).SerializeToString())
    assert runtime.converted_name(path) == "net.ncnn"
    path.write_bytes(model_of([node("DynamicQuantizeLinear", "x", "y s z")]).SerializeToString())
    with pytest.raises(ConfigurationError, match="has DynamicQuantizeLinear, which its") as raised:
        runtime.converted_name(path)
    assert raised.value.hint == "Use a policy without int8, or int8 with quantize=0."


def test_marks_surround_the_last_run(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[object] = []
    monkeypatch.setattr(protocol, "mark", events.append)
    protocol.marked(lambda: events.append("run"), 2)
    assert events == [7777776, "run", "run", 7777777, "run", 7777778]


def test_several_threads_are_profiled_where_they_wait_without_executing_anything(
    runtime: FakeRuntime, board: HostBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    four = execution(runtime, board, tmp_path, {}, replace(WORKLOAD, threads=4))
    assert four.marked_bench(profile=True, threads=4) is None
    monkeypatch.setattr(FakeRuntime, "passive_threads", NcnnRuntime.passive_threads)
    command = four.marked_bench(profile=True, threads=4)
    assert command is not None
    assert command.argv[command.argv.index("--threads") + 1] == "4"
    assert command.environment == {"OMP_WAIT_POLICY": "passive"}


def test_a_marked_run_has_one_thread(runtime: FakeRuntime, board: HostBoard, tmp_path: Path) -> None:
    command = execution(runtime, board, tmp_path, {}, replace(WORKLOAD, threads=4)).marked_bench(profile=True)
    assert command is not None
    assert command.argv[command.argv.index("--threads") + 1] == "1"
    completed = board.run(command.argv, timeout=60)
    assert len(command.read(completed.stdout, 60.0).samples_ns) == 1


def test_packages_are_unpacked_whole_or_not_at_all(
    board: HostBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import zipfile

    archive = tmp_path / "packages.zip"
    program = str(program_file())

    def unpack() -> Completed:
        words = ["unpack", str(archive), f"{archive}{UNPACKED}", str(tmp_path / "part")]
        return board.run([sys.executable, *ISOLATED, program, *words], timeout=60)

    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("module.py", "x = 1\n" * 1000)
    damaged = archive.read_bytes()
    archive.write_bytes(damaged[:60] + b"!!!!" + damaged[64:])
    assert unpack().status == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "packages.zip"]
    archive.write_bytes(damaged)
    for _ in range(2):  # another session may have been faster
        assert unpack().status == 0
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            "cache",
            "packages.zip",
            "packages.zip.unpacked",
        ]
    assert (tmp_path / f"packages.zip{UNPACKED}" / "module.py").read_text() == "x = 1\n" * 1000


class AnsweringBoard(FakeBoard):
    def __init__(self, answer: Completed) -> None:
        super().__init__()
        self.answer = answer

    def run(self, *_: object, **__: object) -> Completed:
        return self.answer


ANSWER = {
    "executable": "/usr/bin/python3",
    "version": "3.11",
    "implementation": "CPython",
    "machine": "aarch64",
    "bits": 64,
    "libc": "glibc 2.36",
}


def test_a_board_names_its_python() -> None:
    def answered(**changed: object) -> AnsweringBoard:
        return AnsweringBoard(Completed(status=0, stdout=json.dumps(ANSWER | changed), stderr=""))

    found = python_of(answered())
    assert found.python == Python(version="3.11", machine="aarch64", glibc="2.36")
    with pytest.raises(TargetMismatchError, match="has no Python 3: sh: python3: not found"):
        python_of(AnsweringBoard(Completed(status=127, stdout="", stderr="sh: python3: not found")))
    with pytest.raises(TargetMismatchError, match=r"has CPython 3\.11 with 32 bits"):
        python_of(answered(bits=32))
    with pytest.raises(TargetMismatchError, match=r"has PyPy 3\.11"):
        python_of(answered(implementation="PyPy"))
    with pytest.raises(HarnessError, match="implausible answer"):
        python_of(answered(executable="python3\n"))


@pytest.mark.parametrize("name", FROM_WHEELS)
def test_pinned_packages_fit_this_machine_and_a_raspberry_pi(name: str) -> None:
    packages = read_packages(name)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for python in (
        Python(version=version, machine="x86_64", glibc="2.36"),
        Python(version="3.11", machine="aarch64", glibc="2.36"),
        Python(version="3.13", machine="aarch64", glibc="2.41"),
    ):
        runtime, numpy = packages.fitting(python)
        assert isinstance(runtime, WheelPin)
        assert (runtime.version, numpy.package) == (packages.version, "numpy")
    if converter := packages.of_converter:
        assert len(converter.fitting(Python(version=version, machine="x86_64", glibc="2.36"))) == 1
    with pytest.raises(TargetMismatchError, match=r"no pinned wheel for Python 3\.6 on aarch64"):
        packages.fitting(Python(version="3.6", machine="aarch64", glibc="2.27"))
    for glibc in ("2.17", ""):
        with pytest.raises(TargetMismatchError, match=r"needs glibc 2\.[23]"):
            packages.fitting(Python(version="3.11", machine="aarch64", glibc=glibc))


def test_arm_nn_fits_the_python_of_its_debian_alone() -> None:
    packages = read_packages("armnn")
    backends = {
        machine: {
            pin.package.removeprefix("libarmnn-").removesuffix("-backend22")
            for pin in packages.fitting(Python(version="3.11", machine=machine, glibc="2.36"))
            if pin.package.endswith("-backend22")
        }
        for machine in ("x86_64", "aarch64")
    }
    assert backends == {"x86_64": {"cpuref"}, "aarch64": {"cpuref", "cpuacc"}}
    with pytest.raises(TargetMismatchError, match=r"no pinned Debian package for Python 3\.13") as error:
        packages.fitting(Python(version="3.13", machine="aarch64", glibc="2.41"))
    assert "3.11 (aarch64)" in error.value.hint
    with pytest.raises(TargetMismatchError, match=r"needs glibc 2\.34"):
        packages.fitting(Python(version="3.11", machine="aarch64", glibc="2.31"))


@pytest.mark.parametrize(
    ("shape", "found"),
    [
        ((1, 3, 4, 5), ((1, 3, 4, 5), False)),
        ((0, 3, 0, 0), ((1, 3, 4, 5), False)),
        ((-1, -1, -1, 3), ((1, 4, 5, 3), True)),
        ((1, 60), ((1, 60), False)),
        ((1, 5, 12), ((1, 5, 12), False)),
        ((2, 3, 4, 5), ((2, 3, 4, 5), False)),
        ((1, 5, 4, 3), None),
        ((1, 61), None),
        ((1, 0), None),
    ],
)
def test_pictures_are_laid_out_as_the_input(shape: tuple[int, ...], found: object) -> None:
    tensor = Tensor(name="in", shape=shape, dtype=np.dtype("float32"))
    if found is None:
        with pytest.raises(ValueError, match="the input in has the shape"):
            layout(tensor, (3, 4, 5))
    else:
        assert layout(tensor, (3, 4, 5)) == found


def test_further_inputs_need_fixed_sizes() -> None:
    picture = Tensor(name="in", shape=(1, 3, 0, 0), dtype=np.dtype("float32"))
    more = picture._replace(name="more", shape=(0, 7))
    assert shapes_of([more, picture], (3, 4, 5)) == [(1, 7), (1, 3, 4, 5)]
    with pytest.raises(ValueError, match="the size of the input more is not fixed"):
        shapes_of([more._replace(shape=(1, 0)), picture], (3, 4, 5))


def test_an_abort_says_why() -> None:
    assert str(failure(-6, "INFO: a delegate\nfree(): double free\n", command="x")) == (
        "x: ended by SIGABRT: free(): double free"
    )
    assert str(failure(-9, "", command="x")) == "x: ended by SIGKILL"


def test_an_error_of_the_interpreter_itself_is_told() -> None:
    assert "No space left" in str(failure(1, "Traceback\nOSError: No space left on device", command="x"))


def test_operators_of_a_profile_have_their_median_times() -> None:
    def event(index: int, microseconds: int, **more: object) -> dict[str, object]:
        shape = [{"float": [1, 3]}, {"int64": [2]}]
        arguments = {"node_index": str(index), "op_name": f"Op{index}", "input_type_shape": shape}
        return {"cat": "Node", "name": "x_kernel_time", "dur": microseconds, "args": arguments} | more

    events = [
        {"cat": "Session", "name": "model_loading", "dur": 9},
        event(7, 1000),
        event(3, 5, name="x_fence_before"),
        event(3, 4),
        *(event(7, microseconds) for microseconds in (2, 4, 3)),
    ]
    assert operators(events) == [
        {"type": "Op7", "computed": "float", "provider": "", "ns": 3000},
        {"type": "Op3", "computed": "float", "provider": "", "ns": 4000},
    ]


@pytest.mark.parametrize("fallback_backend", ["", "CpuRef"])
def test_operators_on_an_emulated_board_are_asked_for_their_backends_alone(
    fallback_backend: str,
    runtime: FakeRuntime,
    board: HostBoard,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(FakeRuntime, "has_profile", True)
    monkeypatch.setattr(FakeRuntime, "fallback_backend", fallback_backend)
    started = execution(runtime, board, tmp_path, {})
    for emulated, asked in ((False, ["--profile"]), (True, ["--profile", "--profiled-runs"])):
        monkeypatch.setattr(HostBoard, "emulated", emulated)
        argv = started.bench(warmup=0, runs=1, min_seconds=0).argv
        expected = [] if emulated and not fallback_backend else asked
        assert [word for word in argv if word.startswith("--profile")] == expected


def test_operators_of_arm_nn_name_the_backend_that_executed_them() -> None:
    def event(*microseconds: float, **more: object) -> dict[str, object]:
        return {
            "type": "Event",
            "Wall clock time_#1": {"type": "Measurement", "raw": list(microseconds), "unit": "us"},
            "Wall clock time (Start)_#1": {"type": "Measurement", "raw": [1e6], "unit": "us"},
            **more,
        }

    workloads = {
        "CopyMemGeneric_Execute_#3": event(1, **{"Synchronize buffers_#4": event(1)}),
        "NeonConvolution2dWorkload_Execute_#5": event(30, 10, 20),
        "RefSoftmaxWorkload_Execute_#6": event(2.5),
    }
    text = json.dumps(
        {"ArmNN": {"inference_measurements_#1": event(60, **{"Execute_#2": event(50, **workloads)})}}
    )
    assert [tuple(row.values()) for row in armnn_operators(text)] == [
        ("CopyMemGeneric", "", "", 1000),
        ("Convolution2d", "", "CpuAcc", 20000),
        ("Softmax", "", "CpuRef", 2500),
    ]


def test_operators_of_openvino_are_those_that_ran() -> None:
    def event(name: str, microseconds: int, primitive: str, *, ran: bool = True) -> SimpleNamespace:
        return SimpleNamespace(
            node_name=name,
            node_type=name.title(),
            exec_type=primitive,
            real_time=timedelta(microseconds=microseconds),
            status="executed" if ran else "not run",
            Status=SimpleNamespace(EXECUTED="executed"),
        )

    profiles = [
        [
            event("fused", 0, "undef", ran=False),
            event("conv", microseconds, "brgconv_avx512_1x1_f32"),
            event("mul", 1, "jit_I8"),
        ]
        for microseconds in (2, 4, 3)
    ]
    assert openvino_operators(profiles) == [
        {"type": "Conv", "computed": "float", "provider": "brgconv_avx512_1x1", "ns": 3000},
        {"type": "Mul", "computed": "int8", "provider": "jit", "ns": 1000},
    ]


@pytest.mark.parametrize(
    ("operator", "given", "weights", "refused"),
    [
        ("CONV_2D", "float32", "float32", False),
        ("CONV_2D", "int8", "int8", False),
        ("CONV_2D", "float32", "int8", True),
        ("DEQUANTIZE", None, "float16", True),
    ],
)
def test_arm_nn_names_weights_that_its_parser_does_not_read(
    operator: str, given: str | None, weights: str, refused: bool, tmp_path: Path
) -> None:
    numbers, codes = {"float32": 0, "float16": 1, "int8": 9}, {"CONV_2D": 3, "DEQUANTIZE": 6}
    constant = np.ones((2, 2), weights)
    tensors = [
        FlatTensor(name="x", type=numbers[given or "float32"]),
        FlatTensor(name="w", shape=constant.shape, data=constant.tobytes(), type=numbers[weights]),
        FlatTensor(name="y"),
    ]
    path = tmp_path / "net.tflite"
    inputs = [0, 1] if given else [1]
    made = FlatOperator(code=codes[operator], inputs=inputs, outputs=[2])
    path.write_bytes(flat_model(tensors, [made], inputs=[0], outputs=[2]))
    runtime = find_runtime("armnn")
    assert isinstance(runtime, PythonRuntime)
    if refused:
        with pytest.raises(ConfigurationError, match=f"armnn: net.tflite has {weights} weights"):
            runtime.executed_file(path)
    else:
        assert runtime.executed_file(path) == path


def test_tensors_before_the_post_processing_are_declared_as_outputs(tmp_path: Path) -> None:
    model = model_of([node("Relu", "x", "boxes"), node("NonZero", "boxes", "y")])
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    runtime = OnnxRuntime()
    file = ModelFile(path=path, outputs={0: "y"})
    assert runtime.with_outputs(file, tmp_path) == file
    found = runtime.with_outputs(ModelFile(path=path, outputs={0: "boxes"}), tmp_path)
    assert found.path != path
    assert [output.name for output in onnx.load(found.path).graph.output] == ["y", "boxes"]


def test_a_board_that_cannot_unpack_is_at_fault(runtime: FakeRuntime, tmp_path: Path) -> None:
    """A full disk, for example: another board may measure the cell."""

    class FullBoard(AnsweringBoard):
        def run(self, argv: Sequence[str], **_: object) -> Completed:  # type: ignore[override]
            if "unpack" in argv or argv[0] == "test":
                said = "failed: OSError: [Errno 28] No space left on device"
                return Completed(status=1, stdout="", stderr=said)
            return self.answer

        def scratch(self, name: str) -> str:
            return f"/there/{name}"

    board = FullBoard(Completed(status=0, stdout=json.dumps(ANSWER), stderr=""))
    file = tmp_path / "net.fake"
    files = Files(program=file, cfg=file, weights=file, model=file)
    paths = board.deploy(runtime.deployed_files(files, board))
    with pytest.raises(BoardFaultError, match=r"packages cannot be unpacked: .*No space left"):
        runtime.execution(board, paths, {}, WORKLOAD)
