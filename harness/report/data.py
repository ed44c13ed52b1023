"""A report as JSON, and the files that are written beside the results."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

from harness.files import write_atomically
from harness.report.html import html
from harness.report.markdown import markdown
from harness.report.result import INTERNAL, VERSION, Report, Row
from harness.report.verdict import verdicts


def data(report: Report) -> dict[str, Any]:
    """The report as JSON values. Times of cells that are `emulated` are the emulator's, not a board's."""
    return {
        "schema_version": VERSION,
        "sweep": report.sweep,
        "results": str(report.folder),
        "environment": dict(report.environment),
        "counts": report.counts,
        "sweep_file": report.sweep_file,
        "artifacts": dict(report.artifacts),
        "limits": asdict(report.limits),
        "verdicts": [asdict(verdict) for verdict in verdicts(report)],
        "cells": [_cell(row) for row in report.rows],
    }


def _cell(row: Row) -> dict[str, Any]:
    cell = asdict(replace(row, mean_time=None, resampled=None, details=None))
    return {name: value for name, value in cell.items() if name not in INTERNAL}


def write_report(report: Report) -> None:
    """Writes report.html, report.md and report.json into the results folder, each whole or not at all."""
    write_atomically(report.folder / "report.html", html(report).encode())
    write_atomically(report.folder / "report.md", markdown(report).encode())
    text = json.dumps(data(report), indent=2, ensure_ascii=False, allow_nan=False)
    write_atomically(report.folder / "report.json", text.encode() + b"\n")
