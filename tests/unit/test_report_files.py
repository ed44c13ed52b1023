"""The file that a runtime executes, in results and reports: its size, and what it leaves in float."""

from __future__ import annotations

from pathlib import Path

from flat_models import FlatOperator, FlatTensor, flat_model
from report_rows import emulated, report, row

from harness.report.float_notes import float_notes
from harness.report.markdown import escaped, markdown
from harness.runtimes.base import ExecutedFile, Files, find_runtime
from harness.runtimes.ncnn_int8 import left_in_float
from harness.runtimes.ncnn_runtime import NcnnRuntime
from harness.runtimes.on_board.ncnn_file import packed
from harness.runtimes.onnxruntime_runtime import OnnxRuntime

ELU, QUANTIZE, RELU = 111, 114, 19
INT8 = 9
GRAPH = """7767517
5 6
Input in0 0 1 in0
Split two 1 2 in0 a b
Convolution first 1 1 a c 0=4 6=24{int8}
Convolution last 1 1 b d 0=4 6=24
Pooling pool 1 1 d e 0=1
"""


def files(model: Path) -> Files:
    return Files(program=model, cfg=model, weights=model, model=model)


def test_a_tensorflow_lite_file_tells_its_size_and_operators_in_float(tmp_path: Path) -> None:
    file = tmp_path / "net.tflite"
    tensors = [FlatTensor(name="x"), FlatTensor(name="a"), FlatTensor(name="b", type=INT8)]
    operators = [
        FlatOperator(code=ELU, inputs=[0], outputs=[1]),
        FlatOperator(code=QUANTIZE, inputs=[1], outputs=[2]),
        FlatOperator(code=RELU, inputs=[2], outputs=[3]),
    ]
    content = flat_model([*tensors, FlatTensor(name="y", type=INT8)], operators, outputs=(3,))
    file.write_bytes(content)
    for name in ("litert", "armnn"):
        found = find_runtime(name).described(files(file))
        assert found == ExecutedFile(bytes=len(content), float_operators={"ELU": 1})
    file.write_bytes(flat_model(tensors, operators[:2], outputs=(2,)))
    found = find_runtime("litert").described(files(file))
    assert found
    assert found.float_operators is None  # everything


def test_onnx_does_not_tell_and_the_engine_has_no_file(tmp_path: Path) -> None:
    file = tmp_path / "net.onnx"
    file.write_bytes(bytes(77))
    assert OnnxRuntime().described(files(file)) == ExecutedFile(bytes=77)
    assert find_runtime("engine").described(files(file)) is None


def test_ncnn_counts_what_is_float_beside_int8(tmp_path: Path) -> None:
    assert left_in_float(GRAPH.format(int8="")) is None
    assert left_in_float(GRAPH.format(int8=" 8=102")) == {"Convolution": 1, "Pooling": 1}
    file = tmp_path / "net.ncnn"
    file.write_bytes(packed(b"", GRAPH.format(int8=" 8=2"), []))
    assert NcnnRuntime().float_operators(file) == {"Convolution": 1, "Pooling": 1}


def test_tables_have_the_size_and_a_note_on_what_is_float() -> None:
    left = {"LEAKY_RELU": 11, "CONV_2D": 1}
    rows = [
        row("fp32", runtime="litert", file_bytes=3 << 20),
        row("int8", runtime="litert", file_bytes=1 << 20, float_operators=left),
        row("whole", runtime="litert", file_bytes=1 << 20, float_operators={}),
        row("int8", runtime="armnn", float_operators=dict(reversed(left.items()))),
    ]
    (note,) = float_notes(rows)
    assert note.endswith(": computed in float: 11 LEAKY_RELU, 1 CONV_2D.")
    assert all(each.name_on_target in note for each in (rows[1], rows[3]))
    assert rows[2].name_on_target not in note
    text = markdown(report(*rows))
    assert "file MiB" in text
    assert escaped(note) in text
    assert "file MiB" in markdown(report(emulated(file_bytes=1 << 20)))
    assert "file MiB" not in markdown(report(row(), emulated()))
