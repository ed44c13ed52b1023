"""Probes a board: its hardware, settings, sensors and clock skew."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from harness.boards.probe.facts import BoardFacts, ClockSkew, parse_facts
from harness.boards.sensors.state import read_state
from harness.errors import HarnessError
from harness.text import one_line

if TYPE_CHECKING:
    from harness.boards.base import Board

PROBE_SECONDS = 30.0

# Lines: KEY, tab, value.
_SCRIPT = r"""
sys=$1 proc=$2
case $3 in /*) folder=$3 ;; *) folder=./$3 ;; esac
clean() { tr '\000-\037\177' ' '; }
say() { printf '%s\t%s\n' "$1" "$2"; }
text() { dd if="$1" bs=1000 count=1 2>/dev/null | clean; }
# A line with folder, name and text for each of the files of a folder that can be read.
each() {
  key=$1 dir=$2
  shift 2
  for name; do
    if [ -r "$dir/$name" ]; then say "$key" "${dir##*/} $name $(text "$dir/$name")"; fi
  done
}
for file in "$proc/device-tree/model" "$sys/firmware/devicetree/base/model" \
  "$sys/class/dmi/id/product_name"; do
  if [ -r "$file" ]; then say model "$(text "$file")"; break; fi
done
say kernel "$(uname -r 2>/dev/null | clean)"
say machine "$(uname -m 2>/dev/null | clean)"
say bits "$(getconf LONG_BIT 2>/dev/null | clean)"
libc() {
  getconf GNU_LIBC_VERSION 2>/dev/null || if command -v ldd >/dev/null; then ldd --version 2>&1; fi
}
say libc "$(libc | head -n 1 | clean)"
cpu=$sys/devices/system/cpu
if [ -r "$proc/cpuinfo" ]; then
  grep -E '^(processor|CPU implementer|CPU part|Features|model name)[[:space:]]*:' "$proc/cpuinfo" |
    tr '\t' ' ' | while IFS= read -r line; do say cpuinfo "$line"; done
fi
if [ -r "$cpu/present" ]; then say present "$(text "$cpu/present")"; fi
for dir in "$cpu"/cpufreq/policy*; do
  each clock "$dir" related_cpus cpuinfo_min_freq cpuinfo_max_freq scaling_max_freq scaling_cur_freq \
    scaling_governor scaling_available_governors
done
file=$sys/devices/platform/soc/soc:firmware/get_throttled
if [ -r "$file" ]; then say firmware "$(text "$file")"; fi
if [ -r "$proc/meminfo" ]; then say memory "$(grep '^MemTotal:' "$proc/meminfo" | clean)"; fi
say disk "$({ df -P -k "$folder" 2>/dev/null || df -P -k . 2>/dev/null; } | tail -n 1 | clean)"
say end ''
"""


def probe(board: Board, folder: str) -> BoardFacts:
    """Probes a connected board; `folder` is its working folder. Raises HarnessError."""
    skew = _clock_skew(board)
    words = ["sh", "-c", _SCRIPT, "sh", board.sensors.sys, board.sensors.proc, folder]
    done = board.run(words, timeout=PROBE_SECONDS)
    if not done.stdout.endswith("end\t\n"):
        raise HarnessError(
            f"{board.name}: the probe script failed with status {done.status}: "
            f"{one_line(done.stderr) or 'no output'}",
            hint="The board needs a POSIX shell and coreutils (or BusyBox).",
        )
    return parse_facts(done.stdout, read_state(board, board.sensors), skew)


def _clock_skew(board: Board) -> ClockSkew | None:
    asked, started = time.time(), time.monotonic()
    done = board.run(["date", "+%s.%N"], timeout=PROBE_SECONDS)
    return parse_skew(done.stdout, asked, time.monotonic() - started)


def parse_skew(text: str, asked: float, round_trip: float) -> ClockSkew | None:
    """Parses the output of `date +%s.%N`. `asked`: the local Unix time at the start; `round_trip`: seconds.

    The uncertainty is half the round trip, plus half a second if the board's `date` has no fractions.
    """
    found = re.match(r"([0-9]{1,12})(\.[0-9]{9})?", text)
    if found is None:
        return None
    half = round_trip / 2
    coarse = 0.0 if found[2] else 0.5
    theirs = int(found[1]) + (float(found[2]) if found[2] else coarse)
    return ClockSkew(seconds=theirs - (asked + half), uncertainty=half + coarse)
