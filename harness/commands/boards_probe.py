"""`harness boards probe`: properties and settings of each board, and its differences from its target."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from harness import console
from harness.boards.inventory import board_of
from harness.boards.probe.expectations import Mismatch, mismatches
from harness.boards.probe.read import probe
from harness.errors import BoardUnreachableError, HarnessError, TargetMismatchError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.boards.inventory import BoardEntry
    from harness.boards.probe.facts import BoardFacts, Clock

_AT_ONCE = 8  # boards that are asked at the same time


@dataclass(frozen=True, kw_only=True)
class Probed:
    """A board and its answer; `facts` is None if it did not answer."""

    entry: BoardEntry
    detail: str = ""
    facts: BoardFacts | None = None
    mismatches: tuple[Mismatch, ...] = ()

    @property
    def status(self) -> str:
        if self.facts is None:
            return "does not answer"
        return "does not fit" if self.mismatches else "fits"


def run_probe(entries: Sequence[BoardEntry], *, as_json: bool) -> int:
    """Returns status 5 if a board does not answer, else 4 if one differs from its target."""
    with (
        console.progress("examining boards", len(entries)) as bar,
        ThreadPoolExecutor(max_workers=_AT_ONCE) as pool,
    ):
        results = []
        for result in pool.map(_probed, entries):
            results.append(result)
            bar.advance()
    if as_json:
        console.emit_json({"boards": [_record(result) for result in results]})
    else:
        for result in results:
            _print(result)
    if any(result.facts is None for result in results):
        return BoardUnreachableError.exit_status
    return TargetMismatchError.exit_status if any(result.mismatches for result in results) else 0


def _probed(entry: BoardEntry) -> Probed:
    try:
        with board_of(entry) as board:
            facts = probe(board, entry.address.folder)
    except HarnessError as error:
        return Probed(entry=entry, detail=str(error))
    return Probed(entry=entry, facts=facts, mismatches=tuple(mismatches(facts, entry.target)))


def _record(result: Probed) -> dict[str, object]:
    return {
        "name": result.entry.name,
        "target": result.entry.target.name,
        "address": result.entry.where,
        "status": result.status,
        "detail": result.detail,
        "facts": asdict(result.facts) if result.facts else None,
        "mismatches": [asdict(mismatch) for mismatch in result.mismatches],
    }


def _print(result: Probed) -> None:
    from rich.table import Table

    entry = result.entry
    table = Table(title=console.text(f"{entry.name} ({entry.target.name}, {entry.where})"), show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    for key, value in _lines(result.facts) if result.facts else ():
        table.add_row(console.text(key), console.text(value))
    table.add_row("status", console.text(f"{result.status}\n{result.detail}".strip()))
    for mismatch in result.mismatches:
        table.add_row("mismatch", console.text(f"{mismatch.message}\n  {mismatch.hint}"))
    console.stdout().print(table)


def _lines(facts: BoardFacts) -> Iterator[tuple[str, str]]:
    """All properties of the board, by name."""
    counts = [f"{facts.cores.count(name)} {name}" for name in dict.fromkeys(facts.cores)]
    off = (facts.cores_present or 0) - len(facts.cores)
    lines = {
        "model": facts.model,
        "cores": ", ".join(counts) + (f"; {off} switched off" if counts and off > 0 else ""),
        "features": " ".join(facts.features),
        "kernel": " ".join(filter(None, (facts.kernel, facts.machine))),
        "C library": facts.libc,
        "memory": _bytes("of", facts.memory_available_bytes, facts.memory_bytes),
        "free disk": _bytes("", facts.disk_free_bytes, None),
        "throttle source": f"{facts.throttle.source}: {facts.throttle.state}".removesuffix(": "),
    }
    if facts.clock_skew is not None:
        skew = facts.clock_skew
        lines["clock skew"] = f"{skew.seconds:+.3f} ± {skew.uncertainty:.3f} s"
    if facts.uptime_seconds is not None:
        hours, seconds = divmod(facts.uptime_seconds, 3600)
        lines["uptime"] = f"{hours:.0f} h {seconds // 60:.0f} min"
    yield from ((key, value or "not told") for key, value in lines.items())
    for clock in facts.clocks:
        yield f"clock of {clock.cores or '?'}", _clock(clock)
    for zone in facts.thermal_zones:
        yield f"zone {zone.name}", "unknown" if zone.celsius is None else f"{zone.celsius:.1f} °C"


def _clock(clock: Clock) -> str:
    minimum, current, maximum, limit = (
        "?" if hz is None else f"{hz / 1e6:.0f}"
        for hz in (clock.min_hz, clock.current_hz, clock.max_hz, clock.limit_hz)
    )
    governors = f" of {' '.join(clock.governors)}" if clock.governors else ""
    return (
        f"{minimum} to {maximum} MHz, now {current}, limited to {limit}; "
        f"governor {clock.governor or '?'}{governors}"
    )


def _bytes(of: str, part: int | None, whole: int | None) -> str | None:
    shown = [f"{number / 2**20:.0f}" for number in (part, whole) if number is not None]
    return f" {of} ".join(shown) + " MiB" if shown else None
