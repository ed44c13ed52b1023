"""A report as comma-separated values (RFC 4180), for spreadsheets and data frames."""

from __future__ import annotations

import csv
import io

from harness.report.formats.records import Columns, Value, records
from harness.report.result import Report
from harness.text import one_paragraph

# Spreadsheets take a cell that begins with one of these as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_table(report: Report, columns: Columns) -> bytes:
    """A heading and a line for each cell or layer. Unknown values are empty."""
    output = io.StringIO(newline="")
    writer = csv.writer(output)
    writer.writerow(columns)
    for record in records(report, columns):
        writer.writerow([_shown(value) for value in record.values()])
    return output.getvalue().encode()


def _shown(value: Value) -> str:
    """Text on one line; an apostrophe before what would be a formula makes it text in spreadsheets."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return repr(value)
    text = one_paragraph(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
