"""`python -m tools.report_pictures FOLDER`: the tutorial's pictures of a report.

They show the emulated Raspberry Pi 4 of a recorded run of cfg/sweeps/quickstart.yaml, on a terminal and as a
chart (tests/integration/pages). Each build of the documentation site draws them anew
(tools/documentation_site.py); those in docs/ are for readers of the repository.
"""

from __future__ import annotations

import json
import lzma
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from harness.report.charts.section import fronts
from harness.report.result import Report
from harness.report.terminal import print_report

RECORDED = Path(__file__).resolve().parents[1] / "tests" / "integration" / "pages"
_TARGET = "pi4"
_COLUMNS, _WIDTH = 100, 640  # of the terminal, and pixels of the chart


def recorded_report(name: str) -> Report:
    """A report that tests/integration/recorded_pages.py has recorded."""
    content = lzma.decompress((RECORDED / f"{name}.json.xz").read_bytes())
    report: Report = msgspec.json.decode(content, type=Report, dec_hook=lambda kind, value: kind(value))
    return report


def pictures() -> dict[str, str]:
    """SVG by the name of its file in docs/."""
    whole = recorded_report("quickstart")
    report = replace(whole, rows=[row for row in whole.rows if row.target == _TARGET])
    return {"tutorial-report.svg": _on_terminal(report), "tutorial-front.svg": _chart(report)}


def _on_terminal(report: Report) -> str:
    from rich.console import Console
    from rich.terminal_theme import MONOKAI

    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        terminal = Console(record=True, width=_COLUMNS, file=nowhere, force_terminal=True, highlight=False)
        print_report(report, terminal)
        return terminal.export_svg(title="harness report", theme=MONOKAI, unique_id="report")


def _chart(report: Report) -> str:
    import vl_convert

    (chart,) = fronts(report.rows)
    described: dict[str, Any] = {**chart.specifications[0], "width": _WIDTH, "background": "white"}
    return str(vl_convert.vegalite_to_svg(json.dumps(described)))


if __name__ == "__main__":
    for name, svg in pictures().items():
        (Path(sys.argv[1]) / name).write_text(svg, encoding="utf-8")
