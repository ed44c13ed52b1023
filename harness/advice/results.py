"""Reads the results to choose from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.config.document import read_document
from harness.config.sweep import Model
from harness.config.sweep_file import MATRIX
from harness.config.targets import load_target
from harness.errors import ConfigurationError
from harness.report.read import read_report
from harness.report.result import Report, Row
from harness.store.read_only import stored_results


def read_results(folder: Path) -> tuple[Report, dict[str, Model]]:
    """The last run, and the models of its sweep file by their names; none if that file cannot be read now."""
    with stored_results(folder) as store:
        last = store.last_run()
        if last is None:
            raise ConfigurationError(f"{folder}: no run has a result yet", hint="Run the sweep again.")
        report = read_report(store, *last)
        file = store.sweep_file(last[0])
    try:
        models: Sequence[Model] = MATRIX.read(read_document(Path(file))).models
    except ConfigurationError:
        models = ()
    return report, {model.name: model for model in models}


def groups(rows: Sequence[Row], target: str | None) -> list[list[Row]]:
    """The rows of each model and target, or of one target: measured and emulated ones are never compared."""
    wanted = load_target(target).name if target else None
    found: dict[object, list[Row]] = {}
    for row in rows:
        if wanted in (None, row.target):
            found.setdefault((row.model, row.target, row.emulated), []).append(row)
    if not found:
        names = ", ".join(dict.fromkeys(row.target for row in rows))
        raise ConfigurationError(f"no result is of target {wanted}", hint=f"The sweep has {names}.")
    return list(found.values())
