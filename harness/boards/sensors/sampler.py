"""Samples a board's clocks, temperatures, throttling and power while a program runs there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from harness.boards.base import Board
from harness.boards.paths import BoardPaths
from harness.boards.sensors.script import SENSORS
from harness.boards.sensors.state import (
    CLOCKS_KHZ,
    COOLER_STATES,
    RAILS_MICROWATTS,
    STATE_SECONDS,
    UPTIME_SECONDS,
    bits,
    real,
    whole,
)
from harness.boards.sensors.tegrastats import TegraStats, parse_tegrastats
from harness.errors import HarnessError

# The loop ends when the shell that started it ends for any reason. On SIGTERM it also kills its `sleep`. The
# lines of Jetson's tegrastats follow the loop's lines, which have the time.
_LOOP = (
    SENSORS
    + r"""
parent=$4 interval=$5 seconds=$6 milliseconds=$7 tegrastats=$8
case $interval in *.*) sleep 0.0 || interval=$seconds ;; esac
trap 'kill -KILL "$!"; exit' TERM
command -v "$tegrastats" >/dev/null && {
  "$tegrastats" --interval "$milliseconds" &
  statistics=$!
  trap 'kill -KILL "$statistics"; wait "$statistics"' EXIT
}
row() {
  read_one=$1 suffix=$2
  shift 2
  row=
  for sensor; do
    "$read_one" "$sensor$suffix"
    row=$row,$value
  done
  row=${row#,}
  row=${row:--}
}
while kill -0 "$parent"; do
  uptime=-
  read -r uptime rest <"$proc/uptime"
  row number /cpufreq/scaling_cur_freq $cores; line="$uptime $row"
  row number /temp $zones; line="$line $row"
  throttled; line="$line $value"
  row number /cur_state $coolers; line="$line $row"
  row power '' $rails
  printf '%s\n' "$line $row"
  sleep "$interval" &
  wait "$!" || exit
done
"""
)

# The shell's standard error goes to /dev/null, as the shell would report the program's death by signal there;
# a subshell restores it for the program. Every `taskset` supports a mask, but older ones of BusyBox no list.
# The log is created first: without it the loop would end immediately, and another process could get its
# number.
_WRAPPER = r"""
log=$1 mask=$2 interval=$3 seconds=$4 milliseconds=$5 loop=$6 sys=$7 proc=$8 vcgencmd=$9
shift 9
tegrastats=$1
shift
exec 3>&2 2>/dev/null
pin=
[ -n "$mask" ] && taskset "$mask" true && pin="taskset $mask"
sampler=
if true >"$log"; then
  $pin sh -c "$loop" sh "$sys" "$proc" "$vcgencmd" "$$" "$interval" "$seconds" "$milliseconds" "$tegrastats" \
    >>"$log" 3>&- &
  sampler=$!
fi
(exec "$@" 2>&3 3>&-)
status=$?
[ -n "$sampler" ] && kill "$sampler" && wait "$sampler"
exit "$status"
"""

LONGEST_SAMPLE = 1000  # bytes per sample, on average
_TAKE = 'cat <"$1" && rm -f -- "$1"'


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A board's sensors at one moment of a run, each list in the order of BoardState."""

    uptime_seconds: float
    clocks_khz: tuple[int | None, ...]
    temperatures: tuple[int | None, ...]  # millidegrees
    throttled: int | None  # bits of `vcgencmd get_throttled`
    coolers: tuple[int | None, ...]
    rails: tuple[int | None, ...]  # microwatts
    tegrastats: TegraStats | None = None  # its line between this sample and the next


def sampled(
    argv: Sequence[str], log: str, paths: BoardPaths, interval_seconds: float, core: int | None
) -> list[str]:
    """The command that runs `argv` and writes a line to the file `log` every `interval_seconds`.

    The program's output and exit status are unchanged; the status is 128 + n if signal n killed it. The
    sampling loop is in the program's process group and ends with it. It runs on the given core if the board
    has `taskset` (None: on any core). Without fractions in the board's `sleep`, the interval is rounded up.
    If the log cannot be written, there are no samples.

    Raises ValueError unless the interval is positive and finite.
    """
    if not 0 < interval_seconds < math.inf:
        raise ValueError(f"the interval {interval_seconds} s is not positive")
    mask = "" if core is None else format(1 << core, "x")
    whole_seconds = math.ceil(interval_seconds)
    interval = (
        f"{whole_seconds}" if whole_seconds == interval_seconds else f"{max(interval_seconds, 0.001):.3f}"
    )
    return [
        *("sh", "-c", _WRAPPER, PurePosixPath(argv[0]).name, log, mask),  # $0 names the program in errors
        *(interval, f"{whole_seconds}", f"{math.ceil(1000 * interval_seconds)}", _LOOP),
        *(*paths.arguments, paths.tegrastats, *argv),
    ]


def take_samples(board: Board, log: str, most: int) -> list[Sample]:
    """The samples in a log, which is removed; none if there is no log.

    Raises HarnessError for more than `most` samples: another program wrote to the log.
    """
    words = ["sh", "-c", _TAKE, "sh", log]
    text = board.run(words, timeout=STATE_SECONDS, most_output=most * LONGEST_SAMPLE).stdout
    samples = parse_samples(text, most + 1)
    if len(samples) > most:
        raise HarnessError(
            f"{board.name}: implausible result: more than {most} samples of its sensors in one run",
            hint="Check which other program writes to the working folder on the board.",
        )
    return samples


def parse_samples(text: str, most: int) -> list[Sample]:
    """The first `most` samples in a log's text. Incomplete and invalid lines are skipped."""
    samples: list[Sample] = []
    for line in text.split("\n")[:-1]:
        if (sample := _parse(line.split(" "))) is not None:
            if len(samples) == most:
                break
            samples.append(sample)
        elif samples and (stats := parse_tegrastats(line)) is not None:
            samples[-1] = replace(samples[-1], tegrastats=stats)
    return samples


def _parse(fields: Sequence[str]) -> Sample | None:
    uptime = real(fields[0], UPTIME_SECONDS)
    if uptime is None or len(fields) != 6:
        return None
    _, clocks, temperatures, throttled, coolers, rails = fields
    return Sample(
        uptime_seconds=uptime,
        clocks_khz=_numbers(clocks, CLOCKS_KHZ),
        temperatures=_numbers(temperatures),
        throttled=bits(throttled),
        coolers=_numbers(coolers, COOLER_STATES),
        rails=_numbers(rails, RAILS_MICROWATTS),
    )


def _numbers(field: str, within: range | None = None) -> tuple[int | None, ...]:
    return () if field == "-" else tuple(whole(word, within) for word in field.split(","))
