"""The benchmark of scheduling with a few cells: its boards' answers still fit the commands of sweeps."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).resolve().parents[1] / "benchmarks" / "schedule_scale.py"


def test_all_cells_are_measured() -> None:
    words = [sys.executable, str(BENCHMARK), "--boards", "3", "--cells", "40", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["boards"], found["cells"], found["not_done"]) == (3, 40, 0)
