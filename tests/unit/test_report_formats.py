"""`harness report --format csv|parquet|perfetto|model-explorer`, and names in them as text."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cells_in_store import done, planned
from hypothesis import given
from hypothesis import strategies as st
from report_rows import emulated, report, row
from test_report_escaping import NAMES

from harness import cli
from harness.errors import ConfigurationError
from harness.measure.result import Outcome
from harness.report.formats.csv import csv_table
from harness.report.formats.model_explorer import node_data
from harness.report.formats.netron import annotated
from harness.report.formats.parquet import parquet_table
from harness.report.formats.records import cell_columns, layer_columns
from harness.report.formats.trace import trace
from harness.report.result import Report
from harness.runtimes.base import LayerResult
from harness.store.store import Store
from harness.text import one_paragraph


def layer(index: int = 0, ns: int = 1000, **more: Any) -> LayerResult:
    values: dict[str, Any] = {
        "index": index,
        "type": "convolutional",
        "precision": "int8",
        "executed": "int8",
        "isa": "avx2",
        "algorithm": "gemm",
        "ns": ns,
        "conversion_ns": 100,
        "bytes": 10,
    }
    return LayerResult(**(values | more))


def read(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode(), newline="")))


@pytest.fixture
def results(tmp_path: Path) -> Path:
    with Store(tmp_path) as store:
        run = store.begin_run(sweep="s", file="s.yaml", fresh=False)
        store.plan(run, [planned(key) for key in ("fp32", "int8", "failed")])
        for key, time in (("fp32", 2000), ("int8", 1000)):
            cell = done(fps=10.0, p50_ms=100.0, throttled=False, layers=[layer(0, time), layer(1, 500)])
            store.complete_cell(run, key, cell)
        store.complete_cell(run, "failed", Outcome(status="failed", error="=no luck, or\nnone"))
    return tmp_path


def printed(results: Path, *words: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.main(["report", str(results), *words]) == 0
    return capsys.readouterr().out


def test_csv_has_a_row_for_each_cell_or_layer(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = read(printed(results, "--format", "csv", capsys=capsys).encode())
    assert [cell["policy"] for cell in cells] == ["fp32", "int8", "failed"]
    assert (cells[0]["fps"], cells[0]["throttled"], cells[0]["accuracy"]) == ("10.0", "false", "")
    assert cells[2]["error"] == "'=no luck, or none"
    layers = read(printed(results, "--format", "csv", "--layers", "--cell", "int8", capsys=capsys).encode())
    assert [(each["policy"], each["layer_index"], each["layer_ns"]) for each in layers] == [
        ("int8", "0", "1000"),
        ("int8", "1", "500"),
    ]


def test_intervals_are_two_columns_and_nested_values_none() -> None:
    found = read(csv_table(report(row(fps_interval=(9.0, 11.0), p50_interval_ms=(1.0, 2.0))), cell_columns()))
    assert (found[0]["fps_low"], found[0]["fps_high"]) == ("9.0", "11.0")
    assert (found[0]["p50_low_ms"], found[0]["p50_high_ms"]) == ("1.0", "2.0")
    assert not {"conditions", "digests", "scores", "layers", "resampled", "fps_interval"} & set(found[0])
    assert "fps_interval_unavailable_reason" in found[0]


@given(name=NAMES | st.sampled_from(["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(1)", "\t=1", "a,b", '"']))
def test_names_are_text_in_csv(name: str) -> None:
    (found,) = read(csv_table(report(row(name, error=name)), cell_columns()))
    text = one_paragraph(name)
    assert found["policy"] == (f"'{text}" if text[:1] in tuple("=+-@") else text)
    assert found["policy"] == found["error"]


@given(name=NAMES)
def test_names_are_text_in_json_of_viewers(digits: Path, name: str) -> None:
    found = report(row(f"p{name}", layers=[layer()]))
    (process, *_) = json.loads(trace(found))["traceEvents"]
    assert process["args"]["name"] == one_paragraph(f"host digits p{one_paragraph(name)} 1 thread") or (
        process["args"]["name"].isprintable()
    )
    assert json.loads(node_data(found, digits))["name"].isprintable()


def test_a_trace_has_the_layers_of_each_cell_one_after_the_other() -> None:
    found = report(
        row("int8", layers=[layer(0, 3000), layer(1, 500, conversion_ns=0)]),
        emulated("int8", layers=[layer(0, 9, predicted_ns=4000), layer(1, 9, predicted_ns=None)]),
        row("failed", status="failed"),
    )
    document = json.loads(trace(found))
    events = document["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert names == {1: "host digits int8 1 thread", 2: "pi4 (emulated) digits int8 1 thread"}
    slices = [(event["pid"], event["ts"], event["dur"]) for event in events if event["ph"] == "X"]
    assert slices == [(1, 0.0, 3.0), (1, 0.0, 0.1), (1, 3.0, 0.5), (2, 0.0, 4.0), (2, 4.0, 0.0)]
    # What the format asks of each kind of event.
    for event in events:
        assert event["ph"] in "MX"
        assert {"name", "pid", "tid"} <= set(event)
        assert event["ph"] == "M" or {"ts", "dur", "cat"} <= set(event)


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The detector that ships, as ONNX."""
    pytest.importorskip("onnx")
    folder = tmp_path_factory.mktemp("digits")
    cfg = Path(__file__).resolve().parents[2] / "cfg" / "digits"
    model = [f"--cfg={cfg / 'digits.cfg'}", f"--weights={cfg / 'digits.weights'}"]
    assert cli.main(["export", *model, "--format", "onnx", "--out", str(folder), "--quiet"]) == 0
    return folder / "digits.onnx"


KINDS = ["convolutional", "maxpool"] * 6 + ["convolutional"] * 4


def of_digits(**more: Any) -> Report:
    layers = [layer(index, 2000 + index, type=kind) for index, kind in enumerate(KINDS)]
    return report(row(layers=layers, **more))


def test_node_data_have_the_time_of_a_layer_at_its_last_node(digits: Path) -> None:
    import onnx

    names = [node.name for node in onnx.load(digits).graph.node]
    found = json.loads(node_data(of_digits(), digits))["results"]
    assert set(found) <= set(names)
    for index, kind in enumerate(KINDS):
        of_layer = [name for name in names if name.startswith((f"{kind}_{index}/", f"{kind}_{index}:"))]
        assert [name in found for name in of_layer] == [False] * (len(of_layer) - 1) + [True]
        assert found[of_layer[-1]] == {"value": (2000 + index) / 1e6}


def test_nodes_of_an_onnx_file_have_the_time_of_their_layer(digits: Path) -> None:
    import onnx

    plain, model = onnx.load(digits), onnx.load_from_string(annotated(of_digits(), digits))
    onnx.checker.check_model(model)
    noted = {node.name: {each.key: each.value for each in node.metadata_props} for node in model.graph.node}
    for index, kind in enumerate(KINDS):
        (time,) = {note["harness ms"] for name, note in noted.items() if name.startswith(f"{kind}_{index}/")}
        assert time == f"{(2000 + index) / 1e6:.6g}"
    assert noted["convolutional_0/Conv:Conv"]["harness precision"] == "int8"
    assert model.graph.node[0].doc_string.startswith("host digits fp32 1 thread: precision int8, ms 0.002")
    for node in model.graph.node:
        del node.metadata_props[:]
        node.ClearField("doc_string")
    assert model.graph == plain.graph


def test_another_file_than_the_exported_one_is_refused(digits: Path, tmp_path: Path) -> None:
    for write in (annotated, node_data):
        with pytest.raises(ConfigurationError, match="no node has the name of a layer"):
            write(report(row(layers=[layer(type="connected")])), digits)
    (tmp_path / "x").write_bytes(b"\xff\xffnot ONNX")
    with pytest.raises(ConfigurationError, match="not an ONNX file"):
        annotated(of_digits(), tmp_path / "x")


def test_node_data_are_those_of_one_cell(
    results: Path, digits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--format", "model-explorer", "--onnx", str(digits)]
    assert cli.main(["report", str(results), *words]) == 2
    assert '--cell "host m fp32 1 thread"' in capsys.readouterr().err
    one = printed(results, *words, "--cell", "host m int8 1 thread", capsys=capsys)
    assert json.loads(one)["name"] == "ms: host m int8 1 thread"


@pytest.mark.parametrize("words", [["perfetto"], ["model-explorer", "--onnx", "x"]])
def test_a_report_without_profiles_has_nothing_to_view(
    results: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["report", str(results), "--cell", "failed", "--format", *words]) == 2
    assert "no cell has the times of its layers" in capsys.readouterr().err


def test_layers_without_times_are_no_trace() -> None:
    """Those of Arm NN on an emulated board."""
    names = emulated(layers=[layer()])
    with pytest.raises(ConfigurationError, match="no cell has the times of its layers"):
        trace(report(names))
    timed = replace(names, layers=[layer(predicted_ns=5)])
    assert b"convolutional" in trace(report(names, timed))


def test_a_report_is_written_to_a_file(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = results / "report.csv"
    assert printed(results, "--format", "csv", "--out", str(file), capsys=capsys) == ""
    assert len(read(file.read_bytes())) == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "x"], "--out needs --format"),
        (["--format", "table", "--out", "x"], "--out needs --format"),
        (["--format", "parquet"], "--format parquet writes a file"),
        (["--format", "netron", "--out", "x"], "--format netron needs --onnx"),
        (["--format", "model-explorer"], "--format model-explorer needs --onnx"),
        (["--format", "csv", "--onnx", "x"], "--onnx is for --format model-explorer and netron"),
        (["--format", "netron", "--onnx", "x"], "--format netron writes a file"),
        (["--cell", "none such"], "no cell's name contains 'none such'"),
        (["--format", "csv", "--out", "/none/such/x.csv"], "cannot be written"),
    ],
)
def test_wrong_options_are_refused(
    results: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["report", str(results), *words]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err


def test_parquet_has_the_types_of_the_values() -> None:
    pytest.importorskip("pyarrow")
    from pyarrow import parquet

    found: Report = report(row("caf\udce9", layers=[layer()]), row("int8", fps=None))
    cells = parquet.read_table(io.BytesIO(parquet_table(found, cell_columns())))
    assert cells.schema.names == list(cell_columns())
    assert cells["fps"].to_pylist() == [100.0, None]
    assert str(cells.schema.field("threads").type) == "int64"
    layers = parquet.read_table(io.BytesIO(parquet_table(found, layer_columns())))
    assert layers["layer_ns"].to_pylist() == [1000]


def test_parquet_without_pyarrow_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.report.formats.parquet.find_spec", lambda name: None)
    with pytest.raises(Exception, match="needs pyarrow") as error:
        parquet_table(replace(report(row())), cell_columns())
    assert "harness[parquet]" in str(error.value)
