"""A table of any kind of rows, independent of the output format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

NOTHING = "–"  # noqa: RUF001 - a dash for missing figures
R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class Column(Generic[R]):
    """A heading, and the text of a row below it."""

    heading: str
    text: Callable[[R], str]
    number: bool = True
    detail: bool = False  # in Markdown and HTML only
    spare: int = 0  # narrow terminals drop the largest first; 0: never


@dataclass(frozen=True, kw_only=True)
class Table(Generic[R]):
    """A title, columns and rows; `common` has the values that all rows share, `notes` the sentences below."""

    title: str
    columns: Sequence[Column[R]]
    rows: Sequence[R]
    style: Callable[[R], str | None]  # of a row on terminals, for rich
    common: str = ""
    notes: Sequence[str] = field(default_factory=list)

    def cells(self, row: R) -> list[str]:
        return [column.text(row) for column in self.columns]

    def brief(self) -> Table[R]:
        """Without details."""
        return replace(self, columns=[column for column in self.columns if not column.detail])


def figure(value: float | None, unit: float = 1) -> str:
    """Three significant digits, no exponent."""
    if value is None:
        return NOTHING
    scaled = value / unit
    digits = 0 if abs(scaled) >= 100 else 1 if abs(scaled) >= 10 else 2
    return f"{scaled:,.{digits}f}"
