"""Writes docs/predictions.md: predicted milliseconds of well-known networks on boards, beside published ones.

python -m tools.predictions_page                      # the page, from docs/predictions.json
python -m tools.predictions_page FOLDER [NETWORK ...]  # predicts networks of tools/predictions.yaml first

FOLDER holds the files that tools/predictions.yaml names and that this checkout lacks. A network takes
minutes; docs/predictions.json keeps its figures, so that networks can be predicted one after another.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from harness.files import write_atomically
from harness.report.tables import figure
from harness.temporary import temporary_folder
from tools.boardmodel.published import PublishedBoard, read_benchmark

REPOSITORY = Path(__file__).resolve().parents[1]
PAGE = REPOSITORY / "docs" / "predictions.md"
FIGURES = REPOSITORY / "docs" / "predictions.json"
NETWORKS = Path(__file__).with_name("predictions.yaml")
TITLES = {
    "pi3": "Raspberry Pi 3",
    "pi4": "Raspberry Pi 4",
    "pi5": "Raspberry Pi 5",
    "jetson-nano": "Jetson Nano",
}
INTRODUCTION = """\
# Predictions for well-known networks

Milliseconds of one inference of one picture. The columns fp32, fp16 and int8 are **predicted, not measured**:
`harness predict` computes them from an emulated run of this project's engine, with an interval that holds
90 % of measured times ([prediction.md](prediction.md)). int8 has all layers in int8, with static ranges;
[sensitivity.md](sensitivity.md) shows what that costs in accuracy. Of these boards only the Raspberry Pi 5
computes in fp16. The others store fp16 and compute in fp32.

ncnn's times were **measured** by its users on real boards, as published in
[ncnn's benchmark](https://github.com/Tencent/ncnn/blob/master/benchmark/README.md), for the network of the
same name and input; the layers may differ in details. On the Raspberry Pi 5 its floating point is fp16. The
boards' coefficients are fitted to these and other times of ncnn.

Four threads are predicted from the work of each
([prediction.md](prediction.md#several-threads)).

`python -m tools.predictions_page FOLDER` writes this page.

## Networks
"""
POLICIES = ("fp32", "fp16", "int8")
_KEPT = ("policy", "target", "threads", "predicted_ms", "predicted_low_ms", "predicted_high_ms")


def read_networks() -> dict[str, Any]:
    """tools/predictions.yaml."""
    document: dict[str, Any] = yaml.safe_load(NETWORKS.read_text(encoding="utf-8"))
    return document


def predict(network: Mapping[str, Any], folder: Path, document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of `harness predict`: of each precision, board and number of threads."""
    asked = [f"--target={name}" for name in document["targets"]]
    asked += [f"--threads={number}" for number in document["threads"]]
    files = {
        key: next(path for path in (REPOSITORY / network[key], folder / network[key]) if path.is_file())
        for key in ("model", "cfg", "weights")
        if key in network
    }
    if "model" in files:
        return _rows(*asked, "--model", str(files["model"]))
    with temporary_folder("weights") as scratch:
        weights = files.get("weights", scratch / "random.weights")
        if "weights" not in files:
            _harness("models", "random", str(files["cfg"]), str(weights))
        asked += ["--cfg", str(files["cfg"]), "--weights", str(weights)]
        return [row for policy in POLICIES for row in _rows(*asked, "--policy", policy)]


def _rows(*words: str) -> list[dict[str, Any]]:
    rows = json.loads(_harness("predict", "--json", *words))["predictions"]
    return [
        {key: row[key] if key in _KEPT[:3] else float(f"{row[key]:.4g}") for key in _KEPT} for row in rows
    ]


def _harness(*words: str) -> str:
    command = [sys.executable, "-m", "harness", *words]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def page(figures: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """The page, with the networks in the order of tools/predictions.yaml."""
    document = read_networks()
    shown = [network for network in document["networks"] if network["name"] in figures]
    lines = [INTRODUCTION, "| network | input | origin |", "|---|---|---|"]
    lines += [f"| {network['name']} | {network['input']} | {_link(network['origin'])} |" for network in shown]
    for board in read_benchmark().boards:
        if board.target.name in document["targets"]:
            lines += ["", *_table(board, shown, figures, document["threads"])]
    return "\n".join([*lines, ""])


def _link(origin: str) -> str:
    return f"[{origin.removeprefix('https://')}]({origin})" if origin.startswith("https://") else origin


def _table(
    board: PublishedBoard,
    networks: Sequence[Mapping[str, Any]],
    figures: Mapping[str, Sequence[Mapping[str, Any]]],
    threads: Sequence[int],
) -> Iterator[str]:
    yield f"## {TITLES[board.target.name]}\n"
    yield "| network | threads | fp32 | fp16 | int8 | ncnn, measured | ncnn int8, measured |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for network in networks:
        rows = {
            (row["policy"], row["threads"]): row
            for row in figures[network["name"]]
            if row["target"] == board.target.name
        }
        for number in threads:
            published = board.one_thread_ms if number == 1 else board.four_threads_ms
            names = [network.get("published", {}).get(kind, "") for kind in ("float", "int8")]
            cells = [network["name"], str(number), *(_cell(rows[policy, number]) for policy in POLICIES)]
            cells += [figure(published[name]) if name in published else "" for name in names]
            yield f"| {' | '.join(cells)} |"


def _cell(row: Mapping[str, Any]) -> str:
    low, high = figure(row["predicted_low_ms"]), figure(row["predicted_high_ms"])
    return f"{figure(row['predicted_ms'])} ({low} to {high})"


def main(folder: Path | None, names: Sequence[str]) -> None:
    document = read_networks()
    figures = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.is_file() else {}
    known = {network["name"]: network for network in document["networks"]}
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"{NETWORKS}: has no network {unknown[0]}")
    for name in (names or known) if folder else ():
        assert folder is not None
        print(f"predicting {name}", file=sys.stderr)
        figures[name] = predict(known[name], folder, document)
        write_atomically(FIGURES, f"{json.dumps(figures, indent=1)}\n".encode())
    write_atomically(PAGE, page(figures).encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else None, sys.argv[2:])
