"""Compares the facts of a board with its target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.boards.probe.facts import CORES
from harness.build.elf import version_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.boards.probe.facts import BoardFacts
    from harness.config.targets import Target

_CLOCK_TOLERANCE = 0.05  # of the target's; targets have round figures
_TARGET_HINT = "Check `target` in the boards file; `harness targets` lists the targets."
# Linux's names of FEATURES in harness.config.targets.
_HWCAPS = {
    "neon": ("asimd",),
    "lse": ("atomics",),
    "fp16": ("fphp", "asimdhp"),
    "dotprod": ("asimddp",),
    "sve": ("sve",),
}


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """A difference between a board and its target."""

    message: str
    hint: str


def mismatches(facts: BoardFacts, target: Target) -> list[Mismatch]:
    """The differences between a board and its target. Unknown facts are not compared, but a board with too
    few known facts does not fit."""
    return [*_unknown(facts), *_system(facts, target), *_core(facts, target), *_clock(facts, target)]


def _unknown(facts: BoardFacts) -> Iterator[Mismatch]:
    needed = {
        "its machine (`uname -m`)": facts.machine,
        "its C library (`getconf GNU_LIBC_VERSION`, `ldd --version`)": facts.libc,
        "its cores (/proc/cpuinfo)": facts.cores,
    }
    unknown = [what for what, told in needed.items() if not told]
    # Some systems with BusyBox have neither getconf nor ldd.
    if facts.machine is None or len(unknown) > 1:
        yield Mismatch(
            message=f"unknown: {' and '.join(unknown)}; cannot check whether the board fits its target",
            hint="Run these commands on the board; it has to be a Linux with a POSIX shell.",
        )


def _system(facts: BoardFacts, target: Target) -> Iterator[Mismatch]:
    if facts.machine is not None and facts.machine != target.architecture:
        yield Mismatch(
            message=f"the kernel is {facts.machine}, but {target.name} is {target.architecture}",
            hint="Check `target` in the boards file, and that the board has a 64-bit system.",
        )
    elif facts.bits is not None and facts.bits != 64:
        yield Mismatch(
            message=f"the system is {facts.bits}-bit, but programs for {target.name} are 64-bit",
            hint="Install a 64-bit system: a 64-bit kernel alone does not run 64-bit programs.",
        )
    if target.glibc is None or facts.libc is None:
        return
    if facts.glibc is None:
        yield Mismatch(
            message=f"the C library is {facts.libc}, but {target.name} has glibc {target.glibc}",
            hint="Install a system with glibc; programs for the target do not run with another C library.",
        )
    elif version_key(facts.glibc) < version_key(target.glibc):
        yield Mismatch(
            message=f"glibc is {facts.glibc}, but {target.name} has {target.glibc}",
            hint=f"Update the system, or choose a target with glibc {facts.glibc} or older: "
            "`harness targets` lists the targets.",
        )


def _core(facts: BoardFacts, target: Target) -> Iterator[Mismatch]:
    expected = _expected_core(target)
    if facts.cores and expected is not None:
        alike, wanted = facts.cores.count(expected), target.board.cores if target.board else 1
        if alike == 0:
            kinds = ", ".join(dict.fromkeys(facts.cores))
            yield Mismatch(
                message=f"the cores are {kinds}, but {target.name} has {expected}", hint=_TARGET_HINT
            )
        elif alike < wanted:
            off = (facts.cores_present or 0) - len(facts.cores)
            yield Mismatch(
                message=f"{alike} {expected} cores are online, but {target.name} has {wanted}",
                hint="Bring them online: `nvpmodel -m 0` on a Jetson, elsewhere "
                "/sys/devices/system/cpu/cpu*/online or maxcpus= in the kernel command line."
                if off > 0
                else _TARGET_HINT,
            )
    if facts.features:
        for feature in target.features:
            absent = [name for name in _HWCAPS[feature] if name not in facts.features]
            if absent:
                yield Mismatch(
                    message=f"the cores have no {', '.join(absent)}, but {target.name} has {feature}",
                    hint="Programs for the target use it. " + _TARGET_HINT,
                )


def _expected_core(target: Target) -> str | None:
    """The name of the target's core; None if unknown."""
    if target.board is not None:
        midr = target.board.midr
        return CORES.get((midr >> 24, midr >> 4 & 0xFFF))
    return target.cpu if target.cpu in CORES.values() else None


def _clock(facts: BoardFacts, target: Target) -> Iterator[Mismatch]:
    permitted = [clock for clock in facts.clocks if clock.limit_hz or clock.max_hz]
    if target.board is None or not permitted:
        return
    fastest = max(permitted, key=lambda clock: clock.limit_hz or clock.max_hz or 0.0)
    limit, most, wanted = (
        fastest.limit_hz or fastest.max_hz or 0.0,
        fastest.max_hz or 0.0,
        target.board.clock_hz,
    )
    if abs(limit - wanted) <= _CLOCK_TOLERANCE * wanted:
        return
    yield Mismatch(
        message=f"the highest clock is {limit / 1e6:.0f} MHz, but {target.name} has {wanted / 1e6:.0f}",
        hint="scaling_max_freq in /sys/devices/system/cpu/cpufreq limits it to less than the hardware's "
        f"{most / 1e6:.0f} MHz: increase it, or choose another power mode (`nvpmodel -m 0` on a Jetson)."
        if limit < wanted and most > limit * (1 + _CLOCK_TOLERANCE)
        else "Check the board's model, firmware and settings (config.txt on a Raspberry Pi): predictions for "
        "the target assume its clock.",
    )
