"""A seeded campaign of damaged models: each is imported, or is one error that names the file.

    python tests/faults/hostile_models.py --seed 1 --mutations 10000 --json

Takes a float ONNX file, a copy of it with QDQ pairs (qdq_copy.py) and a quantised TensorFlow Lite file, all
small so that one import takes a fraction of a second; other files can be named instead. Each damaged copy
(mutations.py) is imported and written as `harness import` does, in a process of its own with limits. Any
other exception, a warning of NumPy, a signal, 10 s of processor time, 1 GB of memory, files that are left of
a failed import, or an error without the file's name is a finding: three files of each are kept, with what
happened beside them. Prints a table, or JSON; exit status 1 if there is a finding.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy is loaded: threads do not survive a fork
sys.path.insert(0, str(Path(__file__).resolve().parent))

from limited_process import Ended, run_limited
from mutations import Mutation, Mutator
from qdq_copy import qdq_copy

from harness.config.import_options import ImportOptions
from harness.errors import ConfigurationError
from harness.importing.metadata import describe
from harness.importing.model import import_model
from harness.importing.writer import write_model

if TYPE_CHECKING:
    from rich.table import Table

_BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"
DATA = Path(os.environ.get("HARNESS_SHARED_DATA", _BESIDE)) / "import"
FLOAT_ONNX, FLAT = "yunet-n/yunet_n_320_320.onnx", "mlperf-tiny/kws_ref_model.tflite"
MOST_SECONDS, MOST_BYTES = 10, 10**9
_MAPPED_BYTES = 3 << 30  # saves the machine from what MOST_BYTES finds
_KEPT = 3  # files of one finding
_PLACE = re.compile(r'File "[^"]*?/(harness/importing/[^"]+)", line (\d+)')


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one damaged copy led to: "imported", "refused", or the kind of a finding."""

    kind: str
    detail: str = ""

    @property
    def right(self) -> bool:
        return self.kind in ("imported", "refused")

    def signature(self) -> str:
        """Equal for findings that are probably the same: the kind, the message and its place."""
        places = _PLACE.findall(self.detail)
        if not places:
            return re.sub(r"\d+", "N", f"{self.kind}: {self.detail.partition(chr(10))[0][:80]}")
        last = self.detail.strip().rpartition("\n")[2]
        return re.sub(r"\d+", "N", f"{self.kind}: {last[:80]}") + f" at {':'.join(places[-1])}"


@dataclass(kw_only=True)
class Tally:
    """The figures of one model."""

    model: str
    mutations: int = 0
    imported: int = 0
    refused: int = 0
    findings: Counter[str] = field(default_factory=Counter)  # by signature
    kinds: Counter[str] = field(default_factory=Counter)  # of changes
    peak_bytes: int = 0
    longest_seconds: float = 0.0
    minutes: float = 0.0

    def add(self, mutation: Mutation, outcome: Outcome, ended: Ended) -> None:
        self.mutations += 1
        self.kinds.update(mutation.kinds)
        self.imported += outcome.kind == "imported"
        self.refused += outcome.kind == "refused"
        if not outcome.right:
            self.findings[outcome.signature()] += 1
        self.peak_bytes = max(self.peak_bytes, ended.peak_bytes)
        self.longest_seconds = max(self.longest_seconds, ended.seconds)

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "findings": dict(self.findings), "kinds": dict(self.kinds)}


def trial(path: Path, folder: Path) -> tuple[Outcome, Ended]:
    """Imports one file into a folder that does not exist, and judges what happened."""
    ended = run_limited(lambda: _imported(path, folder), seconds=MOST_SECONDS, address_bytes=_MAPPED_BYTES)
    return judged(ended, path, folder), ended


def _imported(path: Path, folder: Path) -> dict[str, object]:
    """What `harness import` does, and which files it says it has written."""
    # What NumPy warns of would be printed between the lines of a command.
    warnings.simplefilter("error")
    try:
        model = import_model(path)
        files = write_model(model, folder, describe(model, ImportOptions()))
    except ConfigurationError as error:
        return {"refused": str(error)}
    except BaseException:  # noqa: BLE001 - it is a finding, whatever it is
        return {"exception": traceback.format_exc()}
    return {"imported": sorted(path.name for path in files.all())}


def judged(ended: Ended, path: Path, folder: Path) -> Outcome:
    """Whether an import ended as it has to."""
    left = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    report: dict[str, Any] = ended.report or {}
    if ended.signal == signal.SIGXCPU:
        return Outcome(kind="too slow", detail=f"more than {MOST_SECONDS} s")
    if ended.signal or not report:
        return Outcome(kind="crash", detail=f"signal {ended.signal}")
    if "exception" in report:
        return Outcome(kind="exception", detail=report["exception"])
    if ended.peak_bytes >= MOST_BYTES:
        return Outcome(kind="memory", detail=f"{ended.peak_bytes / 1e6:.0f} MB")
    if left != report.get("imported", []):
        return Outcome(kind="files", detail=f"left in the folder: {left}")
    if "refused" not in report:
        return Outcome(kind="imported")
    if path.name not in report["refused"]:
        return Outcome(kind="no file's name", detail=report["refused"])
    return Outcome(kind="refused", detail=report["refused"])


class Campaign:
    """All mutations of some models; `keep`: the folder for the files of findings."""

    def __init__(self, folder: Path, keep: Path, seed: int, mutations: int) -> None:
        self.folder = folder
        self.keep = keep
        self.seed = seed
        self.mutations = mutations

    def run(self, model: Path, verbose: bool = False) -> Tally:
        tally = Tally(model=model.name)
        mutator = Mutator(model.read_bytes(), self.seed)
        begun = time.monotonic()
        for number in range(self.mutations):
            self._one(model, mutator.mutation(number), number, tally)
            tally.minutes = (time.monotonic() - begun) / 60
            if verbose and tally.mutations % 500 == 0:
                print(_line(tally), file=sys.stderr, flush=True)
        return tally

    def _one(self, model: Path, mutation: Mutation, number: int, tally: Tally) -> None:
        path, out = self.folder / model.name, self.folder / "out"
        path.write_bytes(mutation.data)
        outcome, ended = trial(path, out)
        tally.add(mutation, outcome, ended)
        if not outcome.right and tally.findings[outcome.signature()] <= _KEPT:
            self.keep.mkdir(parents=True, exist_ok=True)
            kept = self.keep / f"{model.stem}-{self.seed}-{number}{model.suffix}"
            kept.write_bytes(mutation.data)
            kept.with_suffix(".txt").write_text(f"{mutation.kinds}\n{outcome.kind}\n{outcome.detail}\n")
        shutil.rmtree(out, ignore_errors=True)


def _line(tally: Tally) -> str:
    return (
        f"{tally.model}: {tally.mutations} mutations, {tally.imported} imported, {tally.refused} refused, "
        f"{tally.findings.total()} findings, {tally.minutes:.1f} min"
    )


def table(tallies: Sequence[Tally]) -> Table:
    from rich.table import Table

    found = Table(
        "model", "mutations", "imported", "refused", "findings", "largest MB", "longest s", "minutes"
    )
    for column in found.columns[1:]:
        column.justify = "right"
    for one in tallies:
        found.add_row(
            one.model,
            *map(str, (one.mutations, one.imported, one.refused, one.findings.total())),
            f"{one.peak_bytes / 1e6:.0f}",
            f"{one.longest_seconds:.1f}",
            f"{one.minutes:.1f}",
        )
    return found


def default_models(folder: Path) -> list[Path]:
    """The three models of the campaign; `folder` is where the copy with QDQ pairs is written."""
    copy = folder / "yunet_n_qdq.onnx"
    copy.write_bytes(qdq_copy((DATA / FLOAT_ONNX).read_bytes()))
    return [DATA / FLOAT_ONNX, copy, DATA / FLAT]


def warm_up(models: Sequence[Path], folder: Path) -> None:
    """Loads what imports need, once for all copies of this process, and checks the undamaged models."""
    for model in models:
        said = _imported(model, folder / "out")
        shutil.rmtree(folder / "out", ignore_errors=True)
        if "imported" not in said:
            raise SystemExit(f"{model}: not imported even without damage: {said}")
    gc.freeze()  # what is collected in a copy would have to be copied


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path, help="instead of the three")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mutations", type=int, default=10_000, help="of each model")
    parser.add_argument(
        "--keep", type=Path, default=Path("hostile-models"), help="folder for files of findings"
    )
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hostile-models-") as name:
        folder = Path(name)
        (folder / "undamaged").mkdir()
        models = arguments.models or default_models(folder / "undamaged")
        warm_up(models, folder)
        campaign = Campaign(folder, arguments.keep, arguments.seed, arguments.mutations)
        tallies = [campaign.run(model, verbose=True) for model in models]
    if arguments.json:
        print(json.dumps({"seed": arguments.seed, "models": [one.as_json() for one in tallies]}, indent=2))
    else:
        from rich.console import Console

        Console(width=110).print(table(tallies))
        for one in tallies:
            for signature, number in one.findings.most_common():
                print(f"{one.model}: {number} times {signature}")
    return 1 if any(one.findings for one in tallies) else 0


if __name__ == "__main__":
    sys.exit(main())
