"""A user's command that reads the power of a board, for example from a USB meter or a smart plug."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

from harness import console
from harness.boards.user_command import CommandWords, run_user_command
from harness.config.validation import Choice, Either, Field, Number, Record, Shape, Then, from_dataclass
from harness.errors import HarnessError
from harness.text import one_line, printable

EnergyUnit = Literal["watts", "joules"]
_Reading = tuple[float, float]  # seconds of a clock, and watts or joules

UNITS: dict[EnergyUnit, str] = {"watts": "the current power in watts", "joules": "the total energy in joules"}
_LARGEST = 1e12


@dataclass(frozen=True, kw_only=True)
class EnergyMeter:
    """The command, its unit and its timing.

    It prints one number on standard output: the current power in watts, or the total energy in joules. For
    watts it runs repeatedly while a program runs on the board, for joules once before and once after.
    """

    command: tuple[str, ...]
    unit: EnergyUnit = "watts"
    seconds: float = 5.0  # timeout of a call
    every: float = 1.0  # seconds between two calls, for watts

    @property
    def name(self) -> str:
        """The name in reports, without the arguments: they may contain a password."""
        return f"the command {printable(Path(self.command[0]).name)}"

    def read(self) -> float:
        """The current reading. Raises HarnessError if the command fails, times out, or prints no number."""
        printed = run_user_command(self.command, self.seconds, doing=self.name, key="energy")
        found = re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?", printed.strip())
        if found is None or float(found[0]) > _LARGEST:
            # Only here: reports must not contain the output.
            console.warn(f'{self.name} printed "{one_line(printed)[:40]}"')
            raise HarnessError(
                f"{self.name} did not print a number of {self.unit}",
                hint=f"It has to print only a number: {UNITS[self.unit]}.",
            )
        return float(found[0])


@dataclass(kw_only=True)
class Metered:
    """A meter's result for the run of a program; None: unknown."""

    source: str = ""
    joules: float | None = None
    seconds: float | None = None  # the duration
    warning: str = ""  # why the energy is unknown, with a hint


@contextlib.contextmanager
def metered(meter: EnergyMeter | None) -> Iterator[Metered]:
    """Measures while the block runs; the result is complete at its end. Errors become warnings."""
    found = Metered()
    if meter is None:
        yield found
        return
    found.source = meter.name
    readings: list[_Reading] = []

    def read() -> bool:
        asked = time.monotonic()
        try:
            value = meter.read()
        except HarnessError as error:
            found.warning = f"energy was not measured: {error.message}: {error.hint}"
            return False
        readings.append(((asked + time.monotonic()) / 2, value))
        return True

    if meter.unit == "joules":
        begun = read()
        yield found
        if begun and read():
            _count(found, readings)
        return
    stop = threading.Event()

    def go_on_reading() -> None:
        while read() and not stop.wait(meter.every):
            pass

    thread = threading.Thread(target=go_on_reading)
    thread.start()
    try:
        yield found
    finally:
        ended = time.monotonic()
        stop.set()
        thread.join()
    if not found.warning:
        _integrate(found, [reading for reading in readings if reading[0] <= ended])


def _count(found: Metered, readings: Sequence[_Reading]) -> None:
    (start, before), (end, after) = readings
    if after > before:
        found.joules, found.seconds = after - before, end - start
    else:
        fell = f"it fell from {before:g} to {after:g}" if after < before else f"it stayed at {after:g}"
        found.warning = (
            f"energy was not measured: {found.source} has to print the total energy in joules, but {fell}: "
            "check whether it was reset, and increase min_seconds if its steps are coarse"
        )


def _integrate(found: Metered, readings: Sequence[_Reading]) -> None:
    if (energy := integral(readings)) is not None:
        found.joules, found.seconds = energy
    else:
        found.warning = (
            f"energy was not measured: {found.source} was read fewer than two times while the program ran: "
            "increase min_seconds, or decrease `every` under `energy` in the boards file"
        )


def integral(readings: Sequence[_Reading]) -> tuple[float, float] | None:
    """Joules and duration in seconds, of readings in seconds and watts, by the trapezoidal rule.

    None for fewer than two readings.
    """
    if len(readings) < 2:
        return None
    joules = sum(
        (later - earlier) * (power + next_power) / 2
        for (earlier, power), (later, next_power) in pairwise(readings)
    )
    return joules, readings[-1][0] - readings[0][0]


_COMMAND = CommandWords(example="[read-plug, --watts, 192.0.2.9]")


ENERGY_SHAPE: Shape[EnergyMeter] = Either(
    short=Then(shape=_COMMAND, make=lambda _node, words: EnergyMeter(command=words)),
    long=Record(
        what="an energy meter",
        make=from_dataclass(EnergyMeter),
        defaults=EnergyMeter,
        fields={
            "command": Field(
                shape=_COMMAND,
                help="words of the command",
                required=True,
                example=["read-plug", "192.0.2.9"],
            ),
            "unit": Field(
                shape=Choice(what="unit", names=lambda: list(UNITS)),
                help="unit of the printed number: the watts of now, or all joules so far",
                example="joules",
            ),
            "seconds": Field(
                shape=Number(least=0.1, most=60),
                help="maximum duration of one call, in seconds",
                example=2,
            ),
            "every": Field(
                shape=Number(least=0.01, most=60),
                help="pause between two calls for watts, in seconds",
                example=0.5,
            ),
        },
    ),
)
