"""Sweeps that leave a policy to a search, on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tiny_sweep import query, results, run, write_tiny_sweep

from harness.config.darknet_cfg import read_cfg

pytestmark = pytest.mark.engine

SWEEP = """\
models:
  - {name: tiny, cfg: tiny.cfg, weights: tiny.weights, dataset: data, calibration: {images: 4}}
policies:
  - fp32
  - int8
  - {search: {max_drop: 100, min_agreement: 50, budget: 1m}}
  - {name: impossible, search: {min_fps: 1000000}}
targets: [host]
protocol: {warmup: 1, runs: 5, min_seconds: 0.05}
"""


def searches(sweep: Path) -> list[Any]:
    return [row for row in results(sweep) if row[0] == "search"]


def by_policy(document: dict[str, Any]) -> dict[str, Any]:
    return {cell["policy"]: cell for cell in document["cells"]}


def test_a_searched_policy_is_a_cell_like_others_and_is_searched_once(tmp_path: Path) -> None:
    sweep = write_tiny_sweep(tmp_path, SWEEP)
    # Cells that are not to be measured are not searched, and do not get the results of others.
    cells = by_policy(run(sweep, "--cell", "fp32", "--cell", "int8"))
    assert searches(sweep) == []
    assert cells["int8"]["status"] == "done"
    assert cells["searched"]["fps"] is None
    cells = by_policy(run(sweep, "--cell", "searched"))
    assert cells["searched"]["status"] == "done"
    assert cells["searched"]["fps"] > 0
    assert cells["searched"]["accuracy"] is not None
    (found,) = searches(sweep)
    layers = json.loads(found[3])["layers"]
    cfg = read_cfg(tmp_path / "results" / "cfgs" / "tiny" / "searched.cfg")
    assert {str(layer.index): layer.precision for layer in cfg.weighted} == layers
    executed = "SELECT precision FROM layers WHERE revision = (SELECT max(revision) FROM cells)"
    assert [row[0] for row in query(sweep, executed)][: len(layers)] == list(layers.values())
    # Again: neither searched nor measured. The one that nothing meets fails, and no other cell with it.
    cells = by_policy(run(sweep, status=6))
    assert found in searches(sweep)
    assert "no policy meets the limits of the search" in cells["impossible"]["error"]
    assert [cells[name]["status"] for name in ("fp32", "int8", "searched")] == ["done"] * 3
    assert cells["impossible"]["fps"] is None
    # With other limits it is another search.
    sweep.write_text(SWEEP.replace("min_agreement: 50", "min_agreement: 51"))
    run(sweep, "--cell", "searched")
    assert len([row for row in searches(sweep) if row[2] == "done"]) == 2
