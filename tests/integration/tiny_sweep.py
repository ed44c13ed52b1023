"""A sweep of a network with random weights over pictures with random boxes, and how tests run it."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harness.store.store import FILE_NAME

CFG = """\
[net]
width=32
height=32
channels=3
[convolutional]
filters=8
size=3
stride=2
pad=1
activation=leaky
[convolutional]
groups=8
filters=8
size=3
pad=1
activation=leaky
[convolutional]
filters=21
size=1
activation=linear
[yolo]
mask=0,1,2
anchors=4,4, 8,8, 16,16
num=3
classes=2
"""
WEIGHTS = 8 + 8 * 3 * 9 + 8 + 8 * 9 + 21 + 21 * 8  # biases and kernels
PICTURES = 6


def write_tiny_sweep(folder: Path, text: str) -> Path:
    """Writes tiny.cfg, tiny.weights, data/ and the sweep file beside them."""
    from PIL import Image

    rng = np.random.default_rng(3)
    weights = rng.normal(0, 0.2, WEIGHTS).astype("<f4")
    header = np.array([0, 2, 0], "<i4").tobytes() + bytes(8)
    (folder / "tiny.cfg").write_text(CFG)
    (folder / "tiny.weights").write_bytes(header + weights.tobytes())
    for name in ("images", "labels"):
        (folder / "data" / name).mkdir(parents=True)
    for number in range(PICTURES):
        pixels = rng.integers(0, 256, (40, 50, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "data" / "images" / f"{number}.png")
        (folder / "data" / "labels" / f"{number}.txt").write_text(f"{number % 2} 0.5 0.5 0.4 0.4\n")
    path = folder / "sweep.yaml"
    path.write_text(text)
    return path


def command(sweep: Path, *more: str) -> list[str]:
    results = str(sweep.parent / "results")
    return [
        sys.executable,
        "-m",
        "harness",
        "run",
        "--json",
        "--matrix",
        str(sweep),
        "--results",
        results,
        *more,
    ]


def run(
    sweep: Path, *more: str, status: int = 0, environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Runs a sweep to its end and returns its JSON, or its `error` where there is none."""
    done = subprocess.run(
        command(sweep, *more),
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
        env=None if environment is None else {**os.environ, **environment},
    )
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    data: dict[str, Any] = json.loads(done.stdout) if done.stdout else {"error": done.stderr}
    return data


def start(sweep: Path, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(sweep, *more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A shell starts its background jobs with SIGINT ignored, and that is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no threads here
    )


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == 0, stderr
    data: dict[str, Any] = json.loads(stdout)
    return data


def query(sweep: Path, sql: str) -> list[tuple[Any, ...]]:
    path = sweep.parent / "results" / FILE_NAME
    if not path.is_file():
        return []
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=60)
    try:
        return database.execute(sql).fetchall()
    except sqlite3.OperationalError:  # its tables are not there yet
        return []
    finally:
        database.close()


def results(sweep: Path) -> set[tuple[Any, ...]]:
    return {
        *query(sweep, "SELECT 'cell', key, status, result, revision, run, finished FROM cells"),
        *query(sweep, "SELECT kind, key, status, result, revision, run, finished FROM evaluations"),
    }
