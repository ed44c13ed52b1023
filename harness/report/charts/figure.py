"""A chart as a part of a page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape

from harness.report.charts.chart import Chart
from harness.text import one_paragraph

START = '<script type="application/json" class="chart">'  # of each drawing; draw.js looks for it


def figure(chart: Chart) -> str:
    """The caption, the places of the drawings, and the data as a table that opens on demand."""
    caption = escape(one_paragraph(chart.caption))
    described = ({"description": one_paragraph(chart.caption), **each} for each in chart.specifications)
    drawings = "".join(
        f'{START}{_json(each)}</script><div class="drawing"{_space(each)}></div>\n' for each in described
    )
    table = data_table(chart.headings, chart.rows)
    return f"<figure><figcaption>{caption}</figcaption>\n{drawings}{table}</figure>\n"


def _space(specification: Mapping[str, object]) -> str:
    """The height that a drawing will have at least: the page keeps it free until the drawing is there."""
    height = specification.get("height")
    return f' style="min-height:{height}px"' if isinstance(height, int) else ""


def data_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table that opens on demand; "" without rows."""
    if not rows:
        return ""
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(one_paragraph(text))}</td>' for text in row)}</tr>\n" for row in rows
    )
    return (
        '<details><summary>Data</summary><div class="wide" tabindex="0" role="region" aria-label="Data">'
        f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div></details>"
    )


def _json(specification: object) -> str:
    """JSON that ends no element: in HTML, only `<` begins markup within a script."""
    return json.dumps(specification, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
