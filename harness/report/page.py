"""A self-contained HTML page with tables and charts: what the pages of reports and searches share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from harness.report.charts.bundle import script
from harness.report.charts.figure import START
from harness.text import one_paragraph

# The page loads nothing: its browser refuses every request. Vega compiles its expressions to functions.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'unsafe-eval'; "
    "img-src data: blob:"
)
_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem; padding: 0 1rem; }
body { background: #fff; color: #222; overflow-wrap: break-word; }
h2 { margin: 2.5rem 0 .5rem; }
.verdict { border: 1px solid #8886; border-radius: 6px; margin: 1rem 0; padding: .2rem 1rem; }
.verdict h2 { font-size: 115%; margin: .5rem 0 0; }
.verdict .summary { font-size: 115%; margin: .3rem 0; }
.wide { overflow-x: auto; }
section > .wide { content-visibility: auto; }
section > .wide { contain-intrinsic-height: auto calc(7rem + var(--rows) * 31.5px); }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #8884; text-align: right; overflow-wrap: normal; }
th { vertical-align: bottom; }
td { white-space: nowrap; }
td { font-variant-numeric: tabular-nums; }
.text { text-align: left; }
.optimal { font-weight: 600; }
.failed { color: #b00020; }
.skipped, .pending { color: #666; }
.common { margin: 0; }
.emulated { border-left: 4px solid #d08700; padding-left: 1rem; }
.notes { color: #555; font-size: 90%; }
code { overflow-wrap: anywhere; }
figure { margin: 1.5rem 0; }
figcaption, summary { color: #555; font-size: 90%; max-width: 60rem; }
.drawing { width: 100%; min-height: 120px; }
.drawing :focus-visible { outline: 2px solid; }
@media (prefers-color-scheme: dark) {
  body { background: #111; color: #ddd; }
  .notes, figcaption, summary, .skipped, .pending { color: #aaa; }
  .failed { color: #ff8a80; }
}
@media print {
  body { max-width: none; background: #fff; color: #000; }
  figure, .verdict, tr { break-inside: avoid; }
  .wide, section > .wide { overflow: visible; content-visibility: visible; }
  td { white-space: normal; }
}
"""

NO_CHARTS = "<p class=\"notes\">For charts, install the extra: pip install 'harness[report]'</p>\n"


def page(title: str, body: str, *, style: str = "") -> str:
    """A page with this title and this HTML below it, and `style` beside the style of all pages. The code that
    draws charts is in it if there is one."""
    shown = text(title)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{shown}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}{style}</style></head>\n<body><main>\n<h1>{shown}</h1>\n{body}</main>\n"
        + (f"<script>{script()}</script>\n" if START in body else "")
        + "</body></html>\n"
    )


def grid(name: str, columns: Sequence[tuple[str, bool]], rows: Sequence[tuple[str, Sequence[str]]]) -> str:
    """A table below the heading with the id `name`. `columns`: headings, and whether their cells are numbers;
    `rows`: the class of each, and the texts of its cells."""
    head = "".join(_cell("th", heading, number) for heading, number in columns)
    body = "\n".join(
        f'<tr class="{text(kind)}">'
        + "".join(_cell("td", cell, number) for (_, number), cell in zip(columns, cells, strict=True))
        + "</tr>"
        for kind, cells in rows
    )
    # A region that scrolls must be reachable by the keyboard.
    return (
        f'<div class="wide" style="--rows:{len(rows)}" tabindex="0" role="region" '
        f'aria-labelledby="{name}"><table>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )


def notes(sentences: Iterable[str]) -> str:
    """Small print, an item for each sentence."""
    return f'<ul class="notes">{"".join(f"<li>{text(sentence)}</li>" for sentence in sentences)}</ul>\n'


def text(content: str) -> str:
    """As HTML, without control characters."""
    return escape(one_paragraph(content))


def _cell(tag: str, content: str, number: bool) -> str:
    kind = "" if number else ' class="text"'
    return f"<{tag}{kind}>{text(content)}</{tag}>"
