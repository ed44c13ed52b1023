"""Fall-backs to another backend of a runtime, in reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from report_rows import row

from harness.report.backends import backend_notes, fallback_of
from harness.report.result import Fallback
from harness.runtimes.base import LayerResult


def layers(*backends: str) -> Sequence[LayerResult]:
    return [
        LayerResult(
            index=index,
            type=f"Operator{index}",
            precision="int8",
            executed="int8",
            isa="unknown",
            algorithm=backend,
            ns=1,
            conversion_ns=0,
            bytes=0,
        )
        for index, backend in enumerate(backends)
    ]


def test_operators_on_the_fallback_backend_are_found_and_copies_are_not_counted() -> None:
    found = fallback_of("armnn", lambda: layers("CpuAcc", "CpuRef", "unknown", "CpuAcc", "CpuRef"))
    assert found == Fallback(backend="CpuRef", operators=["1 Operator1", "4 Operator4"], of=4)


def test_nothing_falls_back_on_the_preferred_backend_or_in_a_runtime_without_backends() -> None:
    assert fallback_of("armnn", lambda: layers("CpuAcc", "CpuAcc")) is None
    assert fallback_of("armnn", layers) is None
    assert fallback_of("engine", lambda: layers("CpuRef")) is None
    assert fallback_of("a runtime of another version", lambda: layers("CpuRef")) is None


def test_a_note_names_the_operators_and_joins_cells_with_the_same() -> None:
    fallback = Fallback(backend="CpuRef", operators=["1 Activation"], of=3)
    rows = [replace(row(policy), runtime="armnn", fallback=fallback) for policy in ("int8", "fp32")]
    (note,) = backend_notes([*rows, row("fp16")])
    assert rows[0].name_on_target in note
    assert rows[1].name_on_target in note
    assert "1 of 3 operators fell back to CpuRef, because no faster backend has them: 1 Activation." in note


def test_many_operators_are_counted_and_a_cell_without_another_backend_is_not_called_a_fall_back() -> None:
    many = [f"{index} Pad" for index in range(15)]
    (note,) = backend_notes([replace(row(), fallback=Fallback(backend="CpuRef", operators=many, of=20))])
    assert "11 Pad and 3 more." in note
    assert "12 Pad" not in note
    (note,) = backend_notes([replace(row(), fallback=Fallback(backend="CpuRef", operators=many, of=15))])
    assert "all 15 operators ran on CpuRef" in note
