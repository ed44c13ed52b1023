"""The tables of `harness search`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.table import Table

from harness import console
from harness.report.columns import NAMES_OF_METRICS
from harness.report.pareto import MIB
from harness.report.table import figure


def show(document: Mapping[str, Any]) -> None:
    """Prints the JSON document of the command as tables."""
    output = console.stdout()
    # Fits into 80 columns.
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=memory_limit(document) is not None)
    for heading, number in headings(document):
        table.add_column(heading, justify="right" if number else "left")
    alike = len(document["uniform"])
    for place, (_, cells) in enumerate(table_rows(document)):
        table.add_row(*cells, style="dim" if place < alike else None)
    output.print(table)
    for line in sentences(document):
        output.print(line, soft_wrap=True)
    if document["page"]:
        output.print(console.text(f"Charts: {document['page']}"), soft_wrap=True)


def headings(document: Mapping[str, Any]) -> list[tuple[str, bool]]:
    """The headings of the table of policies, and whether the cells below are numbers."""
    metric, kind = _metric(document), _kind(document)
    change = [f"Δ\n{metric}"] if metric else []
    memory = ["MiB"] if memory_limit(document) else []
    numbers = ["fp32", "fp16", "int8", f"{kind}\nms", *memory, "agree\n%", *change]
    if _verified(document):
        numbers += ["others\nagree %", *("others\nΔ" for _ in change)]
    return [("policy", False), *((number, True) for number in numbers)]


def table_rows(document: Mapping[str, Any]) -> list[tuple[bool, list[str]]]:
    """Whether a policy is the best, and its cells; first those with all layers alike."""
    return [
        *((False, [row["precision"], *_cells(row, document)]) for row in document["uniform"]),
        *(
            (row["best"], [policy_name(number, row), *_cells(row, document)])
            for number, row in enumerate(document["front"], start=1)
        ),
    ]


def threads_of(document: Mapping[str, Any]) -> str:
    """The threads of an inference, in words."""
    threads = document["threads"]
    return "one thread" if threads == 1 else f"{threads} threads"


def policy_name(number: int, row: Mapping[str, Any]) -> str:
    """Of a policy of the front."""
    return f"{number} ★" if row["best"] else str(number)


def memory_limit(document: Mapping[str, Any]) -> float | None:
    """Bytes; None without such a limit."""
    limit: float | None = document["limits"].get("max_memory_bytes")
    return limit


def unmet(document: Mapping[str, Any]) -> str:
    """What to say if no policy meets the limits."""
    limit, nearest = memory_limit(document), document.get("nearest")
    if limit is None or nearest is None:
        return "No policy meets the limits on the pictures of the search."
    number = 1 + document["front"].index(nearest)
    needed = (nearest["verified"] or nearest)["memory_bytes"]
    return (
        f"No policy fits into {figure(limit, MIB)} MiB. Policy {number} comes nearest: it needs "
        f"{figure(needed, MIB)} MiB."
    )


def _metric(document: Mapping[str, Any]) -> str:
    return NAMES_OF_METRICS.get(document["accuracy_metric"] or "", "")


def _kind(document: Mapping[str, Any]) -> str:
    return "predicted" if document["predicted"] else "measured"


def _verified(document: Mapping[str, Any]) -> bool:
    return any(row["verified"] for row in document["front"])


def _cells(row: Mapping[str, Any], document: Mapping[str, Any]) -> list[str]:
    metric, checked = _metric(document), row["verified"]
    whole = checked or row
    cells = [str(row["layers"][precision]) for precision in ("fp32", "fp16", "int8")]
    cells.append(figure(whole["ms"]))
    if memory_limit(document):
        cells.append(figure(whole["memory_bytes"], MIB))
    cells += _accuracy(row, metric)
    if _verified(document):
        cells += _accuracy(checked, metric) if checked else [""] * (2 if metric else 1)
    return cells


def _accuracy(row: Mapping[str, Any], metric: str) -> list[str]:
    change = [f"{100 * row['accuracy_change']:+.2f}"] if metric else []
    return [f"{100 * row['agreement']:.2f}", *change]


def sentences(document: Mapping[str, Any]) -> list[str]:
    """What the table means, and where its figures are from."""
    kind, verified = _kind(document), _verified(document)
    lines = []
    if document["best"] is None:
        lines.append(unmet(document))
    else:
        lines.append("★ the fastest policy that meets the limits on the pictures of the search.")
    images = document["images"]
    if verified:
        lines.append(
            f"Searched on {images} pictures; the columns “others” are of {images} pictures that the search "
            "did not see."
        )
    if limit := memory_limit(document):
        lines.append(_about_memory(document, limit))
    times = f"Times of {threads_of(document)} on {document['target']}, {kind}"
    lines.append(
        f"{times} from emulated runs, not measured on a board." if document["predicted"] else f"{times}."
    )
    return lines


def _about_memory(document: Mapping[str, Any], limit: float) -> str:
    """What the column is, and whether the best policy's inference on its own needs more than the limit."""
    what = "arena and weights" if document["predicted"] else "the peak of the process"
    best = document["best"]
    if best is None or not best["verified"] or best["verified"]["memory_bytes"] <= limit:
        return f"MiB: {what}, of an inference where the policy was verified, otherwise by the sums."
    return (
        f"MiB: {what}. A second inference with the best policy needed more than the limit of "
        f"{figure(limit, MIB)} MiB: allow for such differences."
    )
