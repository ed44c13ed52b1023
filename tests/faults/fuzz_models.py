"""libFuzzer on the readers of models, led by the coverage of the import's own code (atheris).

    python tests/faults/fuzz_models.py onnx --minutes 15 --corpus corpus --json

Reads, rewrites and lowers what libFuzzer makes of small models: all but the files of an import. Anything but
a graph or a ConfigurationError is a finding, and so is one input that takes 10 s of processor time: it is
kept with its traceback, once for each place in the code, and the fuzzer goes on. A crash, and 2 GB of memory
with the fuzzer's own, end it. Prints executions, coverage and findings; exit status 1 if there is a finding.
Needs the package atheris.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy is loaded
sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "unit"))

from mutations import field_changed

from harness.errors import ConfigurationError

_BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"
DATA = Path(os.environ.get("HARNESS_SHARED_DATA", _BESIDE)) / "import"
FLAT = ("kws_ref_model.tflite", "kws_ref_model_float32.tflite", "pretrainedResnet_quant.tflite")
INT32, OPERATORS = 2, 160  # of TensorFlow Lite's schema
MOST_SECONDS, MOST_MB, LONGEST = 10, 2048, 100_000
STUCK_SECONDS = 300  # by the clock on the wall, which runs on while others have the processor
_PROGRESS = re.compile(rb"#(\d+)\s.*?cov: (\d+) ft: (\d+) corp: (\d+)")


def read_onnx(data: bytes) -> None:
    from harness.importing.onnx_file import parse_onnx_model
    from harness.importing.onnx_reader import graph_of

    _lowered(graph_of(parse_onnx_model(data, "model.onnx"), "model.onnx"))


def read_tflite(data: bytes) -> None:
    from harness.importing.tflite_file import parse_flat_model
    from harness.importing.tflite_reader import graph_of

    _lowered(graph_of(parse_flat_model(data, "model.tflite"), "model.tflite"))


def _lowered(graph: Any) -> None:
    from harness.importing.lower import lower
    from harness.importing.model import simplify

    simplify(graph)
    lower(graph)


READERS: dict[str, Callable[[bytes], None]] = {"onnx": read_onnx, "tflite": read_tflite}


def seeds(reader: str) -> Iterator[bytes]:
    """Small models to begin with."""
    if reader == "tflite":
        for name in FLAT:
            yield (DATA / "mlperf-tiny" / name).read_bytes()
        yield from _one_operator_each()
        return
    from test_importing_onnx import ONE_OPERATOR
    from test_importing_quantised import with_pairs

    for model in (*ONE_OPERATOR.values(), with_pairs("int8", relu=True), with_pairs("uint8", relu=False)):
        yield model.SerializeToString()


def _one_operator_each() -> Iterator[bytes]:
    """Operators of the schema with no options: an image and a list of four numbers."""
    from flat_models import FlatOperator, FlatTensor, flat_model

    numbers = FlatTensor(name="n", shape=(4,), data=b"\1\0\0\0" * 4, type=INT32)
    tensors = [FlatTensor(name="x"), FlatTensor(name="y"), numbers]
    for code in range(OPERATORS):
        yield flat_model(tensors, [FlatOperator(code=code, inputs=[0, 2], outputs=[1])])


class Findings:
    """Keeps what raises another exception, once for each place in the code."""

    def __init__(self, read: Callable[[bytes], None], folder: Path) -> None:
        self.read = read
        self.folder = folder
        self.places: set[str] = set()

    def __call__(self, data: bytes) -> None:
        begun = time.process_time()
        try:
            self.read(data)
        except ConfigurationError:
            pass
        except Exception as error:  # noqa: BLE001 - each is a finding
            frame = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{type(error).__name__}-{Path(frame.filename).stem}-{frame.lineno}"
            self._keep(data, place, traceback.format_exc())
        if (seconds := time.process_time() - begun) > MOST_SECONDS:
            self._keep(data, "slow", f"{seconds:.1f} s")

    def _keep(self, data: bytes, place: str, text: str) -> None:
        if place not in self.places:
            self.places.add(place)
            (self.folder / f"finding-{place}").write_bytes(data)
            (self.folder / f"finding-{place}.txt").write_text(text)


def _fuzz(reader: str, seconds: int, corpus: Path, found: Path, log: Path) -> None:
    """Never returns: libFuzzer ends the process."""
    import atheris

    with atheris.instrument_imports(include=["harness.importing", "tflite", "flatbuffers"]):
        import harness.importing.model
        import harness.importing.onnx_reader
        import harness.importing.tflite_reader  # noqa: F401
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    options = [
        f"-max_total_time={seconds}",
        f"-timeout={STUCK_SECONDS}",
        f"-report_slow_units={STUCK_SECONDS}",  # by the clock on the wall, too
        f"-rss_limit_mb={MOST_MB}",
        f"-max_len={LONGEST}",
        f"-artifact_prefix={found}/",
    ]

    def mutated(data: bytes, most: int, seed: int) -> bytes:
        """Half of the time a change of one field, after which a protocol buffer can still be decoded."""
        chance = random.Random(seed)
        changed = bytes(field_changed(bytearray(data), chance)) if chance.random() < 0.5 else data
        return changed if len(changed) <= most and changed != data else bytes(atheris.Mutate(data, most))

    by_fields = {"custom_mutator": mutated} if reader == "onnx" else {}
    atheris.Setup([sys.argv[0], *options, str(corpus)], Findings(READERS[reader], found), **by_fields)
    atheris.Fuzz()


def fuzz(reader: str, minutes: float, corpus: Path, found: Path) -> dict[str, Any]:
    """Runs libFuzzer in a process of its own, and says what came of it."""
    for folder in (corpus, found):
        folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds(reader)):
        (corpus / f"seed-{number}").write_bytes(seed)
    log = found / "log"
    begun = time.monotonic()
    process = multiprocessing.get_context("spawn").Process(
        target=_fuzz, args=(reader, int(60 * minutes), corpus, found, log)
    )
    process.start()
    process.join()
    progress = _PROGRESS.findall(log.read_bytes())
    executions, coverage, features, inputs = map(int, progress[-1]) if progress else (0, 0, 0, 0)
    return {
        "reader": reader,
        "minutes": round((time.monotonic() - begun) / 60, 1),
        "executions": executions,
        "coverage": coverage,
        "features": features,
        "corpus": inputs,
        "status": process.exitcode,
        "findings": sorted(path.name for path in found.iterdir() if path.suffix != ".txt" and path != log),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("reader", choices=sorted(READERS))
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument(
        "--corpus", type=Path, help="folder with inputs of an earlier run; new ones are added"
    )
    parser.add_argument("--keep", type=Path, default=Path("hostile-models"), help="folder for findings")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fuzz-models-") as name:
        corpus = arguments.corpus or Path(name)
        result = fuzz(
            arguments.reader, arguments.minutes, corpus, arguments.keep / f"fuzz-{arguments.reader}"
        )
    if arguments.json:
        print(json.dumps(result, indent=2))
    else:
        for key, value in result.items():
            print(f"{key}: {value}")
    # libFuzzer ends with 0 when its time is over, and with another number at a crash.
    return 1 if result["findings"] or result["status"] else 0


if __name__ == "__main__":
    sys.exit(main())
