"""The answers of a hostile board: forty ways to lie, and the cause with which each must be refused.

Run as a program, this stands for the engine on a hostile board (hostile_board.py): it runs the real engine,
and prints what the mode makes of its answer.

    python hostile_modes.py PLAN ENGINE bench --cfg C ...

PLAN is a JSON file that maps cells, as `cell_of` names them, to modes. It imports nothing of harness.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

FOREVER = 3600
PIECE = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Mode:
    """A lie of the engine about a cell."""

    name: str
    what: str
    cause: str  # a pattern that the cell's error matches
    answer: Callable[[str], str]  # made of the true one; does not return where it never ends
    command: str = "bench"  # or forward


def _changed(**more: object) -> Callable[[str], str]:
    return lambda truth: json.dumps(json.loads(truth) | more)


def _without(key: str) -> Callable[[str], str]:
    return lambda truth: json.dumps({name: value for name, value in json.loads(truth).items() if name != key})


def _layers(change: Callable[[list[Any]], list[Any]]) -> Callable[[str], str]:
    return lambda truth: json.dumps(json.loads(truth) | {"layers": change(json.loads(truth)["layers"])})


def _replaced(text: str) -> Callable[[str], str]:
    return lambda _: text


def _placed(value: str) -> Callable[[str], str]:
    """This text in the place of the arena's size, as it would not survive json.dumps."""
    return lambda truth: re.sub(r'"arena_bytes": *[0-9]+', lambda _: f'"arena_bytes":{value}', truth)


def _flooding(stream: int, piece: bytes) -> Callable[[str], str]:
    def flood(_: str) -> NoReturn:
        while True:
            os.write(stream, piece)

    return flood


def _hanging(_: str) -> NoReturn:
    time.sleep(FOREVER)
    raise SystemExit(1)


def _complaining(_: str) -> NoReturn:
    sys.stderr.write("mpe: " + "disk on fire " * 40_000 + "\n")
    raise SystemExit(1)


def _crashing(_: str) -> NoReturn:
    os.abort()


def _no_text(_: str) -> str:
    return random.Random(1).randbytes(100_000).decode("latin-1")


SAID = "implausible result: mpe {} on .*: "
_SAMPLES, _INT = "samples_ns", r"samples_ns\[[01]\]: Expected `int`"
MODES = [
    Mode(name="nothing", what="prints nothing", cause="it printed nothing", answer=_replaced("")),
    Mode(name="html", what="prints a web page", cause="not JSON", answer=_replaced("<html>502</html>")),
    Mode(name="bytes", what="prints 100 kB of random bytes", cause="not JSON", answer=_no_text),
    Mode(
        name="truncated", what="breaks off in the middle", cause="not JSON", answer=lambda t: t[: len(t) // 2]
    ),
    Mode(
        name="list", what="a list instead of an object", cause="Expected `object`", answer=lambda t: f"[{t}]"
    ),
    Mode(name="nan", what="arena_bytes is NaN", cause="not JSON", answer=_placed("NaN")),
    Mode(name="infinity", what="arena_bytes is -Infinity", cause="not JSON", answer=_placed("-Infinity")),
    Mode(
        name="1e999",
        what="arena_bytes is 1e999",
        cause="arena_bytes: Number out of range",
        answer=_placed("1e999"),
    ),
    Mode(
        name="digits",
        what="a number of 5,000 digits",
        cause="arena_bytes: Integer value out of range",
        answer=_placed("9" * 5000),
    ),
    Mode(
        name="deep",
        what="9,000 lists in each other",
        cause="arena_bytes: Expected `int`, got `array`",
        answer=_placed("[" * 9000),
    ),
    Mode(
        name="objects",
        what="30,000 objects",
        cause="arena_bytes: Expected `int`, got `array`",
        answer=_placed("[" + "{}," * 30_000),
    ),
    Mode(
        name="no_samples", what="no key samples_ns", cause="missing required field", answer=_without(_SAMPLES)
    ),
    Mode(
        name="no_layers",
        what="no key layers",
        cause="missing required field `layers`",
        answer=_without("layers"),
    ),
    Mode(
        name="empty", what="an empty list of samples", cause="of length >= 1", answer=_changed(samples_ns=[])
    ),
    Mode(name="texts", what="samples as texts", cause=_INT, answer=_changed(samples_ns=["9000", "9000"])),
    Mode(name="booleans", what="samples as true", cause=_INT, answer=_changed(samples_ns=[True, True])),
    Mode(
        name="zero",
        what="a sample of 0 ns",
        cause="is 0: no inference",
        answer=_changed(samples_ns=[0, 10**6]),
    ),
    Mode(
        name="negative",
        what="a sample of -5 ns",
        cause="Expected `int` >= 0",
        answer=_changed(samples_ns=[-5, 10**6]),
    ),
    Mode(
        name="instant", what="samples of 1 ns", cause="is 1: no inference", answer=_changed(samples_ns=[1, 1])
    ),
    Mode(name="int64", what="a sample of 2^63 ns", cause=_INT, answer=_changed(samples_ns=[10**6, 1 << 63])),
    Mode(
        name="ages",
        what="samples of a day",
        cause="it ran for",
        answer=_changed(samples_ns=[86400 * 10**9] * 2),
    ),
    Mode(
        name="too_many",
        what="3,000,001 samples, and 2 were asked for",
        cause=r"printed more than \d+ MB|3000001 samples",
        answer=_changed(samples_ns=[10**6] * 3_000_001),
    ),
    Mode(name="too_few", what="one sample", cause="1 samples, but 2", answer=_changed(samples_ns=[10**6])),
    Mode(
        name="repeated",
        what="each layer has index 0",
        cause=r"layers\[1\]\.index is 0",
        answer=_layers(lambda rows: [row | {"index": 0} for row in rows]),
    ),
    Mode(
        name="fewer", what="the last layer is missing", cause="the cfg has", answer=_layers(lambda r: r[:-1])
    ),
    Mode(
        name="more",
        what="one layer more than the cfg",
        cause="the cfg has",
        answer=_layers(lambda rows: [*rows, rows[-1] | {"index": len(rows)}]),
    ),
    Mode(
        name="other_type",
        what="the first layer is a softmax",
        cause="convolutional in the cfg",
        answer=_layers(lambda rows: [rows[0] | {"type": "softmax"}, *rows[1:]]),
    ),
    Mode(
        name="no_row",
        what="a layer is a text",
        cause="Expected `object`",
        answer=_layers(lambda rows: [*rows[:-1], "layer"]),
    ),
    Mode(
        name="slow_layer",
        what="a layer takes longer than the inference",
        cause=r"layers\[0\]\.ns is",
        answer=_layers(lambda rows: [rows[0] | {"ns": 10**15}, *rows[1:]]),
    ),
    Mode(
        name="surrogate",
        what="half a character in a text",
        cause="is not JSON",
        answer=_changed(isa="\ud800"),
    ),
    Mode(
        name="escape",
        what="a text that colours terminals",
        cause="isa: Expected",
        answer=_changed(isa="\x1b[31m"),
    ),
    Mode(
        name="minus", what="arena_bytes is -1", cause="arena_bytes: Expected `int` >= 0", answer=_placed("-1")
    ),
    Mode(
        name="enormous",
        what="arena_bytes is 2^60",
        cause="arena_bytes: Expected `int` <=",
        answer=_placed(str(1 << 60)),
    ),
    Mode(
        name="text", what="peak_rss_bytes is a text", cause="peak_rss", answer=_changed(peak_rss_bytes="much")
    ),
    Mode(name="threads", what="64 threads were used", cause="threads is 64", answer=_changed(threads=64)),
    Mode(
        name="flood",
        what="prints without end",
        cause="mpe: printed more than",
        answer=_flooding(1, b"1," * PIECE),
    ),
    Mode(
        name="flood_errors",
        what="the same on stderr",
        cause="printed more",
        answer=_flooding(2, b"mpe: no\n" * PIECE),
    ),
    Mode(name="complains", what="an error message of 0.5 MB", cause="disk on fire", answer=_complaining),
    Mode(name="hangs", what="never ends", cause="mpe: did not end within", answer=_hanging),
    Mode(name="crashes", what="ends by SIGABRT", cause="SIGABRT", answer=_crashing),
    Mode(
        name="no_hash",
        what="digests that are no hashes",
        cause="digests.0.: Expected",
        answer=_changed(digests=["../../etc", "passwd"]),
        command="forward",
    ),
    Mode(
        name="one_digest",
        what="a digest for two images",
        cause="1 digests of 2 images",
        answer=_changed(digests=["0" * 64]),
        command="forward",
    ),
    Mode(
        name="flood_digests",
        what="digests without end",
        cause="printed more than",
        answer=_flooding(1, b'"0",' * PIECE),
        command="forward",
    ),
]
BY_NAME = {mode.name: mode for mode in MODES}


def cell_of(arguments: Sequence[str]) -> str:
    """Which cell an engine's command line is of: precision, threads, algorithm."""

    def option(name: str) -> str:
        return arguments[arguments.index(name) + 1] if name in arguments else ""

    text = Path(option("--cfg")).read_text()
    precision = next((each for each in ("fp16", "int8") if f"{each}=1" in text), "fp32")
    return f"{precision} {option('--threads')} {option('--algorithm')}".strip()


def main() -> int:
    plan, *command = sys.argv[1:]
    modes: dict[str, str] = json.loads(Path(plan).read_text())
    mode = BY_NAME.get(modes.get(cell_of(command), ""))
    if mode is None or mode.command != command[1]:
        os.execv(command[0], command)
    truth = subprocess.run(command, capture_output=True, check=True).stdout.decode()
    sys.stdout.buffer.write(mode.answer(truth).encode("utf-8", "surrogatepass"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
