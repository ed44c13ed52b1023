"""JSON schemas of the documents of --json. conftest.py checks all documents that any test makes with them."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from documented import expect_valid, keys
from jsonschema import Draft202012Validator
from report_rows import emulated, report, row
from test_report_formats import layer

from harness.commands.schema import COMMANDS, schema_of
from harness.measure.result import CellConditions, TimePoint
from harness.report.data import data


def document() -> dict[str, Any]:
    conditions = CellConditions(samples=1, governors=("performance",))
    points = [TimePoint(seconds=1.0, fps=5.0)]
    return data(
        report(
            row(layers=[layer()], conditions=conditions, time_series=points, fps_interval=(1.0, 2.0)),
            emulated("int8", predicted_ms=3.0, scores={"map50": 0.9, "images": 3}),
        )
    )


def test_a_report_fits_its_schema_also_with_new_keys() -> None:
    found = document()
    expect_valid("report", found)
    found["cells"][0]["new"] = found["new"] = 1
    expect_valid("report", found)


@pytest.mark.parametrize(
    ("key", "value"),
    [("fps", "fast"), ("status", "lost"), ("threads", None), ("fps_interval", [1.0]), ("layers", [{}])],
)
def test_another_type_does_not_fit(key: str, value: object) -> None:
    found = document()
    found["cells"][0][key] = value
    with pytest.raises(AssertionError, match="does not fit `harness schema report`"):
        expect_valid("report", found)


def test_every_key_is_required() -> None:
    found = document()
    for part in (found, found["cells"][0]):
        for key in copy.copy(part):
            value = part.pop(key)
            with pytest.raises(AssertionError, match=f"'{key}' is a required property"):
                expect_valid("report", found)
            part[key] = value


def test_another_version_does_not_fit() -> None:
    with pytest.raises(AssertionError, match="2 is not one of"):
        expect_valid("report", document() | {"schema_version": 2})


@pytest.mark.parametrize("command", COMMANDS)
def test_the_page_names_every_key_of_a_schema(command: str) -> None:
    schema = schema_of(command)
    Draft202012Validator.check_schema(schema)
    definitions: Any = schema["$defs"]
    (document,) = [name for name in definitions if f"#/$defs/{name}" == schema["$ref"]]
    top = definitions[document]
    assert sorted(top["required"]) == sorted(top["properties"])
    named = {key.split(".")[0].removesuffix("[]") for key in keys(command)}
    assert set(top["properties"]) - named == set()
    rows = "predictions" if command == "predict" else "cells"
    cell: Any = definitions[top["properties"][rows]["items"]["$ref"].rpartition("/")[2]]
    named = {key.split(".")[1].removesuffix("[]") for key in keys(command) if key.startswith(f"{rows}[].")}
    assert set(cell["properties"]) - named == set()
