"""Draws the time series of a sustained run, as a part of a page."""

from __future__ import annotations

from html import escape

from harness.report.result import Row
from harness.report.tables import figure
from harness.text import one_paragraph

_LINES = (("fps", "FPS", "#0a58ca"), ("celsius", "°C", "#d08700"), ("clock", "clock", "#2e7d32"))
_WIDTH, _HEIGHT = 600, 100


def graph(row: Row) -> str:
    """Speed, temperature and clock of a row with a time series, each from zero to its maximum."""
    points = row.time_series or ()
    seconds = max((point.seconds for point in points), default=0.0)
    lines, legend = [], []
    for key, name, colour in _LINES:
        known = [(point.seconds, value) for point in points if (value := getattr(point, key)) is not None]
        most = max((value for _, value in known), default=0.0)
        if most <= 0 or seconds <= 0:
            continue
        line = " ".join(
            f"{_WIDTH * when / seconds:.1f},{_HEIGHT * (1 - 0.95 * value / most):.1f}"
            for when, value in known
        )
        lines.append(
            f'<polyline points="{line}" fill="none" stroke="{colour}" vector-effect="non-scaling-stroke"/>'
        )
        legend.append(f'<span style="color: {colour}">{name}</span> up to {figure(most)}')
    name = escape(one_paragraph(row.name_on_target))
    return (
        f"<figure><figcaption>{name}, {figure(seconds, 60)} minutes: {', '.join(legend)}</figcaption>\n"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" width="100%" height="160">'
        f"{''.join(lines)}</svg></figure>\n"
    )
