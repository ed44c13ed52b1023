"""Draws how a sustained run went, as a part of a page."""

from __future__ import annotations

from html import escape

from harness.report.result import Row
from harness.report.tables import figure
from harness.text import one_paragraph

_LINES = (("fps", "FPS", "#0a58ca"), ("celsius", "°C", "#d08700"), ("clock", "clock", "#2e7d32"))
_WIDTH, _HEIGHT = 600, 100


def graph(row: Row) -> str:
    """Speed, heat and clock of a row with a course, each from nothing to its most, over time."""
    course = row.course or ()
    seconds = max((point["seconds"] or 0.0 for point in course), default=0.0)
    lines, legend = [], []
    for key, name, colour in _LINES:
        known = [(point["seconds"] or 0.0, value) for point in course if (value := point[key]) is not None]
        most = max((value for _, value in known), default=0.0)
        if most <= 0 or seconds <= 0:
            continue
        points = " ".join(
            f"{_WIDTH * when / seconds:.1f},{_HEIGHT * (1 - 0.95 * value / most):.1f}"
            for when, value in known
        )
        lines.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" vector-effect="non-scaling-stroke"/>'
        )
        legend.append(f'<span style="color: {colour}">{name}</span> up to {figure(most)}')
    name = escape(one_paragraph(f"{row.model} {row.policy} x{row.threads} {row.options}"))
    return (
        f"<figure><figcaption>{name}, {figure(seconds, 60)} minutes: {', '.join(legend)}</figcaption>\n"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" width="100%" height="160">'
        f"{''.join(lines)}</svg></figure>\n"
    )
