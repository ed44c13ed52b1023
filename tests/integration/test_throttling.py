"""A sweep on a board that is throttled during some of its cells: those alone are measured again and marked.

The board's `sh` is a script that every command there comes through: it sees which cell's engine is about to
be run, has the made-up sensors show throttling before that, and puts them back before harness hears of its
end; the engine starts when the sensors have been sampled. So what is throttled depends on no clock.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from arm64_board import board_entry, running_board
from fake_boards import cores, folder_of, raspberry_pi, write
from ssh_server import Server
from tiny_sweep import query, run, write_tiny_sweep

from harness.boards.paths import BoardPaths
from harness.errors import ThrottledError

pytestmark = [pytest.mark.engine, pytest.mark.emulation]

SENSOR_KEYS = ("sys", "proc", "vcgencmd")
RERUNS = 1
ROUNDS = 2
RUNS = {"quiet": ROUNDS, "once": ROUNDS + 1, "always": ROUNDS + RERUNS}  # of the engine
SAMPLES = 4  # too few to drift: that, too, would have rounds made again
# The name of a cell's policy says what happens while it is measured.
SOURCES = ("bits", "cooler", "clock")
POLICIES = {
    "bits-always": ("fp32", "fp32"),
    "quiet-1": ("fp32", "fp16"),
    "cooler-once": ("fp32", "int8"),
    "clock-always": ("fp16", "fp32"),
    "quiet-2": ("fp16", "fp16"),
    "bits-once": ("fp16", "int8"),
    "cooler-always": ("int8", "fp32"),
    "clock-once": ("int8", "fp16"),
    "quiet-3": ("int8", "int8"),
}
REASONS = {
    "bits": "the firmware throttled the cores",
    "cooler": "slowed the cores",
    "clock": "fell from",
}
SWEEP = f"""\
models: [{{name: tiny, cfg: tiny.cfg, weights: tiny.weights, calibration: {{dataset: data, images: 2}}}}]
policies: [{", ".join(f"{{name: {name}, layers: {{0: {a}, 1: {b}}}}}" for name, (a, b) in POLICIES.items())}]
targets: [pi4]
protocol: {{warmup: 1, runs: {SAMPLES}, min_seconds: 0, rounds: {ROUNDS}, cool_seconds: 0, reruns: {RERUNS}}}
emulated: {{images: 0}}
"""

# Bits stay set since the start, 16 places further up, as Raspberry Pi's firmware has it.
_SH = r"""#!/bin/dash
pi=${0%/bin/*}/pi
set_sensors() {
  case $1 in
  bits) echo "$2" >"$pi/bits" ;;
  cooler) echo "$3" >"$pi/sys/class/thermal/cooling_device0/cur_state" ;;
  clock) echo "$4" >"$pi/sys/devices/system/cpu/cpu2/cpufreq/scaling_cur_freq" ;;
  esac
}
case $*:$ENTERED in
*" bench "*:)
  export ENTERED=yes
  for word; do
    shift
    case $word in
    */samples) log=$word ;;
    */mpe) set -- "$@" /bin/dash -c 'until [ -s "$0" ]; do sleep 0.02; done; exec "$@"' "$log" ;;
    */*.cfg) policy=${word##*/} policy=${policy%.cfg} ;;
    esac
    set -- "$@" "$word"
  done
  affected=yes
  case $policy in
  *-always) ;;
  *-once) grep -qx "$policy" "$pi/../runs" && affected= ;;
  *) affected= ;;
  esac
  echo "$policy" >>"$pi/../runs"
  [ -z "$affected" ] || set_sensors "${policy%-*}" 0x40004 3 1200000
  /bin/dash "$@"
  status=$?
  [ -z "$affected" ] || set_sensors "${policy%-*}" 0x40000 0 1800000
  exit "$status"
  ;;
esac
exec /bin/dash "$@"
"""


@dataclass(frozen=True, kw_only=True)
class Pi:
    """The board, its sensors, and the file with the policy of every run of the engine there."""

    server: Server
    sensors: BoardPaths
    runs: Path


@pytest.fixture(scope="module")
def pi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pi]:
    if not Path("/bin/dash").exists():
        pytest.skip("needs dash")
    folder = tmp_path_factory.mktemp("pi")
    sensors = raspberry_pi(folder)
    tree = folder_of(sensors)
    write(
        tree,
        {
            **cores(4, clock=1_800_000, maximum=1_800_000, governor="ondemand"),
            "sys/class/thermal/cooling_device0/type": "cpufreq-cpu0\n",
            "sys/class/thermal/cooling_device0/cur_state": "0\n",
        },
    )
    (folder / "pi").symlink_to(tree.name)
    (folder / "runs").write_text("")
    write(folder, {"bin/sh": _SH})
    (folder / "bin" / "sh").chmod(0o755)
    with running_board(
        tmp_path_factory.mktemp("sshd"), {"PATH": f"{folder}/bin:{os.environ['PATH']}"}
    ) as server:
        yield Pi(server=server, sensors=sensors, runs=folder / "runs")


def test_only_throttled_runs_are_repeated_and_marked(pi: Pi, tmp_path: Path) -> None:
    sweep = write_tiny_sweep(tmp_path, SWEEP)
    boards = tmp_path / "boards.yaml"
    sensors = {key: getattr(pi.sensors, key) for key in SENSOR_KEYS}
    boards.write_text(json.dumps({"boards": [board_entry(pi.server, sensors=sensors)]}))
    data = run(sweep, "--boards", str(boards), status=ThrottledError.exit_status)

    runs = Counter(pi.runs.read_text().split())
    assert runs == {name: RUNS[kind(name)] for name in POLICIES}
    assert {cell["policy"] for cell in data["cells"]} == POLICIES.keys()
    results = [json.loads(row[0]) for row in query(sweep, "SELECT result FROM cells WHERE status = 'done'")]
    assert len(results) == len(POLICIES)
    for cell in data["cells"]:
        check(cell)
        assert cell["conditions"] in [result["conditions"] for result in results]
    check_report(tmp_path / "results" / "report.md")
    assert governors(pi) == {"ondemand"}


def kind(policy: str) -> str:
    source, _, when = policy.partition("-")
    return when if source in SOURCES else source


def check(cell: dict[str, Any]) -> None:
    """Measured again where it was throttled, and marked where that did not help."""
    source, when = cell["policy"].split("-")[0], kind(cell["policy"])
    assert cell["status"] == "done", cell["error"]
    assert (cell["attempts"], cell["throttled"]) == (1 if when == "quiet" else 1 + RERUNS, when == "always")
    reasons = cell["conditions"]["reasons"]
    assert len(reasons) == (when == "always")
    assert all(REASONS[source] in reason for reason in reasons)
    assert cell["conditions"]["samples"] > 0


def check_report(path: Path) -> None:
    """A triangle beside the figures of what is throttled, and beside no others."""
    lines = {
        name: line for line in path.read_text().splitlines() for name in POLICIES if f"| {name} |" in line
    }
    assert {name for name, line in lines.items() if "▲" in line} == {f"{source}-always" for source in SOURCES}
    assert lines.keys() == POLICIES.keys()


def governors(pi: Pi) -> set[str]:
    return {path.read_text().strip() for path in folder_of(pi.sensors).glob("sys/**/scaling_governor")}
