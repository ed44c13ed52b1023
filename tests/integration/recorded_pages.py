"""Pages of real runs, from reports that are recorded in tests/integration/pages.

    python tests/integration/recorded_pages.py NAME RESULTS

records the report of a results folder, with fewer samples of each round. The search is what
`harness search --json` printed, compressed by xz.
"""

from __future__ import annotations

import json
import lzma
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from report_page import cells

from harness.report.html import html
from harness.report.read import read_report
from harness.report.result import BoxLoss, Row
from harness.report.search_page import search_page
from harness.store.read_only import stored_results
from tools.report_pictures import RECORDED, recorded_report

RUNS = ("quickstart", "ablation", "runtimes", "sustained")
NAMES = (*RUNS, "search", "large")
LARGE = (5, 2000)  # models and cells of a report that is made, not recorded
_SAMPLES = 200  # of a round that are kept


def page(name: str) -> str:
    """The HTML of one of NAMES."""
    if name == "large":
        return html(cells(*LARGE))
    if name == "search":
        content = lzma.decompress((RECORDED / f"{name}.json.xz").read_bytes())
        return search_page(json.loads(content), "digits")
    return html(recorded_report(name))


def record(name: str, folder: Path) -> None:
    with stored_results(folder) as store:
        run = store.last_run()
        if run is None:
            raise SystemExit(f"{folder}: no run")
        report = read_report(store, *run, details=True)
    rows = [_small(row, name) for row in report.rows]
    sweep = f"cfg/sweeps/{name}.yaml"
    artifacts = {"/".join(Path(path).parts[-2:]): digest for path, digest in report.artifacts.items()}
    report = replace(
        report,
        rows=rows,
        artifacts=artifacts,
        folder=Path("results") / name,
        sweep_file=sweep,
        box_losses=[_of_named_pictures(loss) for loss in report.box_losses],
    )
    content = msgspec.json.encode(report, enc_hook=str)
    RECORDED.mkdir(exist_ok=True)
    shown = content.replace(f"{folder.resolve()}/".encode(), f"results/{name}/".encode())
    (RECORDED / f"{name}.json.xz").write_bytes(lzma.compress(shown, preset=9))


def _small(row: Row, name: str) -> Row:
    """Without what only comparisons need, and without the paths of the machine that recorded it."""
    before, matrix, _ = row.rerun_command.partition(" --matrix ")
    command = f"{before}{matrix}cfg/sweeps/{name}.yaml" if matrix else row.rerun_command
    details = row.details and replace(row.details, rounds=[_thinned(each) for each in row.details.rounds])
    return replace(row, mean_time=None, resampled=None, rerun_command=command, details=details)


def _of_named_pictures(loss: BoxLoss) -> BoxLoss:
    """Without the pictures' folder on the machine that recorded it."""
    if loss.worst is None:
        return loss
    found, reference = (
        replace(picture, path=Path(picture.path).name) for picture in (loss.worst.found, loss.worst.reference)
    )
    return replace(loss, worst=replace(loss.worst, found=found, reference=reference))


def _thinned(samples: Any) -> list[int]:
    return [int(each) for each in samples[:: max(1, len(samples) // _SAMPLES)]]


if __name__ == "__main__":
    record(sys.argv[1], Path(sys.argv[2]))
