"""How long a browser needs for the page of a large sweep's report.

    python tests/benchmarks/report_page.py

writes the report of 2,000 cells (5 models on 4 boards, of which 2 are emulated) and opens it in Chromium. It
prints medians: how long the main thread works and how much time passes until the first chart is drawn, and
until all charts in view are; and how long all take, as for printing. Then it opens the pages that
tests/integration/pages records of real runs: `drawn_ms` is until all their charts are drawn. `harness[dev]`
has what it needs. Exit status 1 if a page is larger, or written or drawn more slowly, than AT_MOST says.
"""

from __future__ import annotations

import io
import math
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "unit"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

import figures
import numpy as np
from page_browser import DRAWN, chromium, view, wait_until
from PIL import Image
from report_rows import emulated, report, row

from harness.accuracy.picture_detections import Detection, PictureDetections, compare_pictures
from harness.measure.intervals import mean_time, speed_interval
from harness.report.box_losses import MOST
from harness.report.comparison import compared_with_fp32
from harness.report.details import detailed
from harness.report.html import html
from harness.report.pareto import pareto_optimal
from harness.report.result import BoxLoss, Details, Report, Row
from harness.runtimes.base import LayerResult

BOARDS = {"pi4": False, "jetson-nano": False, "pi5": True, "pi3": True}  # whether they are emulated
ROUNDS, SAMPLES, LAYERS = 6, 10, 60
RECORDED = ("quickstart", "ablation", "runtimes", "sustained", "search")
AT_MOST = {"megabytes": 3, "write_s": 10, "first_chart_ms": 2000, "in_view_ms": 2000} | {
    f"{name} {figure}": most for name in RECORDED for figure, most in (("megabytes", 3), ("drawn_ms", 2000))
}
# Runs before the page's own scripts: notes when each chart appears, and when all in view are there.
_WATCH = """
const look = () => {
  const drawn = document.querySelectorAll('.drawing svg.marks').length;
  if (drawn && !window.firstAt) window.firstAt = performance.now();
  const inView = [...document.querySelectorAll('.drawing')].filter((place) => {
    const box = place.getBoundingClientRect();
    return box.top < innerHeight && box.bottom > 0;
  });
  if (!window.allAt && inView.length && inView.every((place) => place.querySelector('svg.marks')))
    window.allAt = performance.now();
};
new MutationObserver(look).observe(document, { childList: true, subtree: true });
addEventListener('scroll', look);  // what is drawn already may come into view
"""


def cells(models: int, count: int) -> Report:
    """A report of so many cells, with the details that `harness run` keeps for charts."""
    generator = np.random.default_rng(0)
    each = math.ceil(count / models / len(BOARDS))
    rows: list[Row] = []
    for model in range(models):
        for target, is_emulated in BOARDS.items():
            rows += [
                _cell(generator, f"model-{model}", target, is_emulated, number) for number in range(each)
            ]
    rows = compared_with_fp32(rows[:count])
    optimal = pareto_optimal(rows)
    rows = [replace(each, pareto_optimal=index in optimal) for index, each in enumerate(rows)]
    for index in detailed(rows):
        rows[index] = _detailed(generator, rows[index])
    losses = [_loss(generator, f"model-{number}") for number in range(MOST)]
    return replace(report(*rows), box_losses=losses)


def _loss(generator: np.random.Generator, model: str) -> BoxLoss:
    """As large as one can be: most boxes are lost, and the picture is noise."""
    sides = [
        PictureDetections(
            path=f"/data/{model}.jpg",
            sha256="",
            found=[
                Detection(
                    name="traffic light", confidence=0.5, box=tuple(generator.uniform(0, 0.5, 4).tolist())
                )
                for _ in range(100)
            ],
        )
        for _ in range(2)
    ]
    (worst,) = compare_pictures(sides[:1], sides[1:])
    encoded = io.BytesIO()
    Image.fromarray(generator.integers(0, 256, (180, 240, 3), np.uint8)).save(
        encoded, format="JPEG", quality=70
    )
    return BoxLoss(
        model=model,
        policy="mixed-1",
        runtime="engine",
        recommended_on=list(BOARDS),
        pictures=1,
        kept=worst.kept,
        lost=worst.lost,
        new=worst.new,
        worst=worst,
        jpeg=encoded.getvalue(),
        size=(240, 180),
    )


def _cell(generator: np.random.Generator, model: str, target: str, is_emulated: bool, number: int) -> Row:
    threads, policy = number % 4 + 1, number // 4
    ms = float(generator.uniform(5, 50))
    known: dict[str, Any] = {
        "model": model,
        "target": target,
        "threads": threads,
        "accuracy": round(0.9 - 0.001 * policy * float(generator.uniform(0, 1)), 4),
        "peak_rss_bytes": int(generator.integers(5, 50)) << 20,
    }
    name = f"mixed-{policy}" if policy else "fp32"
    if is_emulated:
        return emulated(name, predicted_ms=ms, predicted_fps=1e3 / ms, **known)
    times = 1e6 * ms * generator.normal(1, 0.01, (ROUNDS, SAMPLES))
    found = mean_time(times.tolist())
    assert found
    low, high = speed_interval(found)
    return row(name, fps=1e3 / ms, fps_interval=(1e9 * low, 1e9 * high), mean_time=found, **known)


def _detailed(generator: np.random.Generator, each: Row) -> Row:
    layers = [
        LayerResult(
            index=index,
            type="convolutional",
            precision="int8",
            executed="int8" if index % 3 else "fp32",
            isa="neon",
            algorithm="gemm",
            ns=int(generator.integers(10_000, 1_000_000)),
            conversion_ns=1000 * (index % 2),
            bytes=1,
            predicted_ns=sum(parts),
            predicted_compute_ns=parts[0],
            predicted_activation_ns=parts[1],
            predicted_conversion_ns=parts[2],
            predicted_memory_ns=parts[3],
        )
        for index in range(LAYERS)
        for parts in [generator.integers(10_000, 250_000, 4).tolist()]
    ]
    rounds = [] if each.emulated else generator.integers(5_000_000, 9_000_000, (ROUNDS, SAMPLES)).tolist()
    return replace(each, details=Details(layers=layers, rounds=rounds))


def opening(browser: Any, file: Path) -> dict[str, float]:
    """Opens the page at its first chart and prints it; milliseconds since navigation, and of the main thread.

    The first chart is brought into view as soon as it is there, as by a reader who looks for it.
    """
    view(browser, 1400)
    browser.get(file.as_uri())
    browser.execute_script("document.querySelector('.drawing').scrollIntoView({ block: 'start' })")
    in_view = float(wait_until(browser, "window.allAt"))
    first = float(browser.execute_script("return window.firstAt"))
    worked = _main_thread_ms(browser)
    started = time.perf_counter()
    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    wait_until(browser, "document.querySelectorAll('.drawing').length === " + DRAWN)
    all_drawn = 1e3 * (time.perf_counter() - started)
    return {
        "first_chart_ms": first,
        "in_view_ms": in_view,
        "in_view_main_thread_ms": worked,
        "rest_ms": all_drawn,
    }


def _main_thread_ms(browser: Any) -> float:
    """How long the main thread has worked for this page: scripts, styles, layout and the parser."""
    metrics = browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return 1e3 * next(float(each["value"]) for each in metrics if each["name"] == "TaskDuration")


def _medians(browser: Any, file: Path, count: int) -> dict[str, float]:
    times = [opening(browser, file) for _ in range(count)]
    return {name: round(statistics.median(each[name] for each in times)) for name in times[0]}


def _megabytes(file: Path) -> float:
    return round(file.stat().st_size / 1e6, 2)


def main() -> int:
    parser = figures.parser(__doc__)
    parser.add_argument("--cells", type=int, default=2000, help="how many cells (%(default)s)")
    parser.add_argument("--models", type=int, default=5, help="of how many models (%(default)s)")
    parser.add_argument("--times", type=int, default=5, help="how often the page is opened (%(default)s)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        file = Path(folder) / "report.html"
        found = cells(arguments.models, arguments.cells)
        started = time.perf_counter()
        file.write_text(html(found), encoding="utf-8")
        seconds = time.perf_counter() - started
        browser.execute_cdp_cmd("Performance.enable", {})
        browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _WATCH})
        medians = _medians(browser, file, arguments.times)
        printed = {"megabytes": _megabytes(file), "write_s": round(seconds, 1), **medians}
        from recorded_pages import page  # which imports this module

        for name in RECORDED:
            file.write_text(page(name), encoding="utf-8")
            medians = _medians(browser, file, arguments.times)
            drawn = medians["in_view_ms"] + medians["rest_ms"]
            printed |= {f"{name} megabytes": _megabytes(file), f"{name} drawn_ms": drawn}
    return figures.conclude(printed, AT_MOST, as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())
