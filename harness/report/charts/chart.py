"""A chart: its specifications, and what they show as text and as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from harness.report.result import Row
from harness.text import one_paragraph

OTHER = "other"
# Okabe and Ito's colours, which colour-blind people can tell apart, readable on white and on black.
_COLOURS = {"fp32": "#0072b2", "fp16": "#009e73", "int8": "#d55e00", OTHER: "#b3689a"}
_SERIES = ["#8a8a8a", "#7a6fd0", "#a08000", "#2f9fc4", "#c0504d", "#5f9e3f"]  # none of a precision
_VALUES = "values"
PACKAGES = ("altair", "vl_convert")


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One figure. `specifications` are drawn below each other; `rows` have their data as texts."""

    caption: str
    specifications: Sequence[Mapping[str, Any]]
    headings: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()  # empty: the report's own table has the data


def charts_available() -> bool:
    """Whether the packages of the extra `report` are installed."""
    return all(map(find_spec, PACKAGES))


def specification(chart: Any, values: Sequence[Mapping[str, Any]], height: int | None) -> dict[str, Any]:
    """A chart of values, as wide as its place; `height` in pixels, None: by its rows."""
    import altair as alt

    size = {"width": "container"} | ({} if height is None else {"height": height})
    found: dict[str, Any] = chart.properties(data=alt.NamedData(name=_VALUES), **size).to_dict()
    del found["config"]  # draw.js has one for all
    # Added here, because Altair would validate each value.
    found["datasets"] = {_VALUES: [dict(_printable(value)) for value in values]}
    return found


def _printable(value: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Without control characters and unknown values."""
    for name, content in value.items():
        if content is not None:
            yield name, one_paragraph(content) if isinstance(content, str) else content


def precision_colour(title: str, field: str = "precision") -> Any:
    """The colour of a precision, the same in all charts."""
    import altair as alt

    scale = alt.Scale(domain=list(_COLOURS), range=list(_COLOURS.values()))
    return alt.Color(f"{field}:N", scale=scale, title=title)


def series_colour(field: str, title: str, series: Sequence[str] = ()) -> Any:
    """Colours of things other than precisions, in the order of the data or of all `series`."""
    import altair as alt

    scale = alt.Scale(domain=list(series), range=_SERIES) if series else alt.Scale(range=_SERIES)
    return alt.Color(f"{field}:N", scale=scale, title=title, sort=None)


def left_out(known: Sequence[Row], rows: Sequence[Row]) -> str:
    """A sentence for a chart that does not have all cells, with a space before it."""
    return f" {len(known)} of {len(rows)} cells: the best ones and fp32." if len(known) < len(rows) else ""
