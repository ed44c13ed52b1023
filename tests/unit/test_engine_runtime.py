"""The engine's command lines, and running an executable that behaves like it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from harness.errors import ConfigurationError, HarnessError, TargetMismatchError
from harness.runtimes import engine as runtime
from harness.runtimes.engine import (
    EngineOptions,
    HostEngine,
    bench_arguments,
    failure,
    forward_arguments,
)

# Head 3 holds each image's number plus one, layer 0 its sum; every call leaves a line in "calls".
STAND_IN = """\
#!{python}
import json, pathlib, sys
import numpy as np
words = sys.argv[1:]
option = lambda name: words[words.index(name) + 1] if name in words else None
folder = pathlib.Path(__file__).parent
if words[0] == "info":
    print(json.dumps({{"input": [3, 4, 4], "inputs": [-1], "layers": [{{"out": [2, 4, 4]}}]}}))
    sys.exit()
batch = np.load(option("--input"))
with open(folder / "calls", "a") as calls:
    print(len(batch), batch.dtype, *words, file=calls)
if option("--isa") == "none":
    print("mpe: warning: only a warning", file=sys.stderr)
    print("mpe: there is no instruction set none", file=sys.stderr)
    sys.exit(1)
print("mpe: warning: an unknown key", file=sys.stderr)
first = batch.reshape(len(batch), -1)[:, :1]
np.save(pathlib.Path(option("--heads")) / "head_003.npy", (first + 1).astype("<f4").reshape(-1, 1, 1, 1))
if option("--layers"):
    sums = batch.reshape(len(batch), -1).sum(axis=1).astype("<f4").reshape(-1, 1, 1, 1)
    np.save(pathlib.Path(option("--layers")) / "layer_1000.npy", sums)
print(json.dumps({{"digests": [str(int(value)) for value in first[:, 0]], "heads": []}}))
"""


@pytest.fixture
def stand_in(tmp_path: Path) -> HostEngine:
    path = tmp_path / "mpe"
    path.write_text(STAND_IN.format(python=sys.executable))
    path.chmod(0o755)
    return HostEngine(path)


CFG, WEIGHTS = Path("n.cfg"), Path("n.weights")


def batch(count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.arange(count, dtype=np.float32)[:, None, None, None] * np.ones((1, 3, 4, 4), np.float32)


def test_options_left_to_the_engine_are_not_passed() -> None:
    assert EngineOptions().arguments() == ["--threads", "1"]


def test_all_options_are_passed_by_their_names() -> None:
    options = EngineOptions(
        threads=2,
        isa="avx2",
        algorithm="gemm",
        prefer="memory",
        cores="0-1",
        tune="t.json",
        calibration=Path("c.json"),
        bn_epsilon=1e-6,
    )
    words = ["--threads", "2", "--isa", "avx2", "--algorithm", "gemm", "--prefer", "memory", "--cores", "0-1"]
    words += ["--tune", "t.json"]
    assert options.arguments() == [*words, "--calibration", "c.json", "--bn-epsilon", "1e-06"]


def test_bench_command_line() -> None:
    words = bench_arguments(
        "/b/mpe", cfg="c", weights="w", options=EngineOptions(), warmup=1, runs=5, min_seconds=0.5, mark=True
    )
    assert words[:2] == ["/b/mpe", "bench"]
    assert words[-7:] == ["--warmup", "1", "--runs", "5", "--min-seconds", "0.5", "--mark"]


def test_forward_command_line_asks_only_for_what_is_wanted() -> None:
    plain = forward_arguments(
        "mpe", cfg="c", weights="w", input="x.npy", options=EngineOptions(), digest=True
    )
    assert plain[-1] == "--digest"
    assert "--heads" not in plain
    assert "--layers" not in plain


def test_tensors_come_back_by_layer(stand_in: HostEngine) -> None:
    result = stand_in.forward(CFG, WEIGHTS, batch(3), layers=True, digest=True)
    assert result.heads[3].ravel().tolist() == [1, 2, 3]
    assert result.layers[1000].ravel().tolist() == [0, 48, 96]
    assert result.digests == ["0", "1", "2"]


def test_forward_returns_only_requested_outputs(stand_in: HostEngine) -> None:
    result = stand_in.forward(CFG, WEIGHTS, batch(1))
    assert (result.digests, result.layers) == ([], {})


def test_a_large_batch_goes_through_in_chunks(stand_in: HostEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "CHUNK_BYTES", 2 * 4 * (48 + 32))  # two images with their layers
    result = stand_in.forward(CFG, WEIGHTS, batch(5), layers=True, digest=True)
    assert result.heads[3].ravel().tolist() == [1, 2, 3, 4, 5]
    assert result.layers[1000].shape == (5, 1, 1, 1)
    assert result.digests == ["0", "1", "2", "3", "4"]
    calls = (stand_in.executable.parent / "calls").read_text().splitlines()
    assert [call.split()[0] for call in calls] == ["2", "2", "1"]


def test_an_image_larger_than_a_chunk_still_goes_through(
    stand_in: HostEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "CHUNK_BYTES", 1)
    assert len(stand_in.forward(CFG, WEIGHTS, batch(2)).heads[3]) == 2


def test_bytes_are_handed_over_as_bytes(stand_in: HostEngine) -> None:
    stand_in.forward(CFG, WEIGHTS, np.zeros((1, 4, 4, 3), np.uint8))
    assert (stand_in.executable.parent / "calls").read_text().split()[1] == "uint8"


def test_no_image_is_refused(stand_in: HostEngine) -> None:
    with pytest.raises(ValueError, match="at least one"):
        stand_in.forward(CFG, WEIGHTS, batch(0))


def test_the_engines_error_is_the_users(stand_in: HostEngine) -> None:
    with pytest.raises(ConfigurationError, match=r"^there is no instruction set none$"):
        stand_in.forward(CFG, WEIGHTS, batch(1), EngineOptions(isa="none"))


def test_a_warning_is_shown_once(stand_in: HostEngine, capsys: pytest.CaptureFixture[str]) -> None:
    stand_in.forward(CFG, WEIGHTS, batch(1))
    stand_in.forward(CFG, WEIGHTS, batch(1))
    assert capsys.readouterr().err.count("an unknown key") == 1


def test_temporary_files_are_gone_afterwards(
    stand_in: HostEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    stand_in.forward(CFG, WEIGHTS, batch(1))
    with pytest.raises(ConfigurationError):
        stand_in.forward(CFG, WEIGHTS, batch(1), EngineOptions(isa="none"))
    assert list(scratch.iterdir()) == []


def test_an_executable_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="cannot be started"):
        HostEngine(tmp_path / "gone").info(CFG)


def test_how_a_process_ended_is_told() -> None:
    assert isinstance(failure(-4, "", command="mpe bench"), TargetMismatchError)
    assert "SIGSEGV" in str(failure(-11, "", command="mpe bench"))
    assert str(failure(-32, "", command="mpe bench")) == "mpe bench: ended by signal 32"
    for number in range(1, 65):  # as a shell's statuses from 129 to 192 are read
        assert failure(-number, "", command="mpe bench").message
    assert "status 3: oops" in str(failure(3, "mpe: warning: x\noops\n", command="mpe bench"))
    assert str(failure(1, "mpe: warning: x\nmpe: bad cfg\n", command="mpe bench")) == "bad cfg"
    assert str(failure(1, "mpe: a\u2028b.cfg: bad\n", command="mpe bench")) == "a\u2028b.cfg: bad"
