"""The tables of `harness search`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.table import Table

from harness import console
from harness.report.columns import NAMES_OF_METRICS
from harness.report.table import figure


def show(document: Mapping[str, Any]) -> None:
    """Prints the JSON document of the command as tables."""
    output = console.stdout()
    metric = NAMES_OF_METRICS.get(document["accuracy_metric"] or "", "")
    kind = "predicted" if document["predicted"] else "measured"
    verified = any(row["verified"] for row in document["front"])
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)  # fits into 80 columns
    table.add_column("policy")
    change = [f"Δ\n{metric}"] if metric else []
    headings = ["fp32", "fp16", "int8", f"{kind}\nms", "agree\n%", *change]
    if verified:
        headings += ["others\nagree %", *("others\nΔ" for _ in change)]
    for heading in headings:
        table.add_column(heading, justify="right")
    for row in document["uniform"]:
        table.add_row(row["precision"], *_cells(row, metric, verified=verified), style="dim")
    for number, row in enumerate(document["front"], start=1):
        mark = " ★" if row["best"] else ""
        table.add_row(f"{number}{mark}", *_cells(row, metric, verified=verified))
    output.print(table)
    for line in _notes(document, kind, verified=verified):
        output.print(line, soft_wrap=True)


def _cells(row: Mapping[str, Any], metric: str, *, verified: bool) -> list[str]:
    checked = row["verified"]
    milliseconds = checked["ms"] if checked else row["ms"]
    cells = [str(row["layers"][precision]) for precision in ("fp32", "fp16", "int8")]
    cells += [figure(milliseconds), *_accuracy(row, metric)]
    if verified:
        cells += _accuracy(checked, metric) if checked else [""] * (2 if metric else 1)
    return cells


def _accuracy(row: Mapping[str, Any], metric: str) -> list[str]:
    change = [f"{100 * row['accuracy_change']:+.2f}"] if metric else []
    return [f"{100 * row['agreement']:.2f}", *change]


def _notes(document: Mapping[str, Any], kind: str, *, verified: bool) -> list[str]:
    lines = []
    if document["best"] is None:
        lines.append("No policy meets the limits on the pictures of the search.")
    else:
        lines.append("★ the fastest policy that meets the limits on the pictures of the search.")
    images = document["images"]
    if verified:
        lines.append(
            f"Searched on {images} pictures; the columns “others” are of {images} pictures that the search "
            "did not see."
        )
    times = f"Times of one thread on {document['target']}, {kind}"
    lines.append(
        f"{times} from emulated runs, not measured on a board." if document["predicted"] else f"{times}."
    )
    return lines
