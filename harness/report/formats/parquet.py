"""A report as an Apache Parquet file, whose columns have types."""

from __future__ import annotations

import io
from importlib.util import find_spec

from harness.errors import ConfigurationError
from harness.report.formats.records import Columns, records
from harness.report.result import Report


def parquet_table(report: Report, columns: Columns) -> bytes:
    """The records of the report. Raises ConfigurationError without pyarrow."""
    if find_spec("pyarrow") is None:
        raise ConfigurationError(
            "--format parquet needs pyarrow", hint="Install it: pip install 'harness[parquet]'"
        )
    import pyarrow as pa
    from pyarrow import parquet

    kinds = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    schema = pa.schema([(name, kinds[kind]) for name, kind in columns.items()])
    output = io.BytesIO()
    # Surrogates stand for bytes of a name that are not UTF-8, which Parquet cannot hold.
    rows = [
        {
            name: value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
            for name, value in record.items()
        }
        for record in records(report, columns)
    ]
    parquet.write_table(pa.Table.from_pylist(rows, schema=schema), output)
    return output.getvalue()
