"""An advice on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from harness import console
from harness.advice.choice import Advice
from harness.advice.judgement import Judged
from harness.advice.proposals import Proposal
from harness.advice.words import limits_in_words, misses
from harness.report import columns
from harness.report.choice import speed_interval_of
from harness.report.notes import MARK
from harness.report.pareto import MIB
from harness.report.result import Row
from harness.report.table import NOTHING, Column, Table, figure
from harness.report.terminal import print_notes, print_table


def show(
    title: str, advice: Advice, said: Sequence[str], unknown: Sequence[str], proposed: Sequence[Proposal]
) -> None:
    """Prints the answer, the rows that it rests on, what is not known, and what to try."""
    output = console.stdout()
    output.print(console.text(f"{title}: {limits_in_words(advice)}"), style="italic")
    for sentence in said:
        output.print(console.text(sentence))
    output.print()
    if advice.cited:
        print_table(output, _table(advice), "--json")
    if unknown:
        output.print("Uncertain:")
        print_notes(output, unknown)
    if proposed:
        output.print("\nTo try:")
    for each in proposed:
        print_notes(output, [each.what])
        if each.command:
            output.print(console.text(f"    {each.command}"), soft_wrap=True)


def _table(advice: Advice) -> Table[Judged]:
    cited = advice.cited
    identity, common = columns.identity([each.row for each in cited])
    emulated = cited[0].row.emulated
    others = len(advice.rows) - len(cited)
    speed = "predicted FPS" if emulated else "FPS"
    notes = [f"{MARK} recommended."] if advice.recommended else []
    notes += [f"{others} other rows are not shown; --json has all."] if others else []
    return Table(
        title="The rows that this rests on",
        columns=[
            Column(heading="", text=lambda one: MARK if one is advice.recommended else "", number=False),
            *map(_of_row, identity[1:]),
            Column(heading=speed, text=lambda one: figure(one.speed or None)),
            Column(heading="90 % interval" if emulated else "95 % CI", text=_interval, spare=3),
            Column(
                heading="arena + weights MiB" if emulated else "peak MiB",
                text=lambda one: figure(one.memory, MIB),
                spare=2,
            ),
            Column(heading="loss ± bootstrap", text=_loss, spare=1),
            Column(heading="misses", text=misses, number=False),
        ],
        rows=cited,
        style=lambda one: "bold" if one is advice.recommended else None,
        common=common,
        notes=notes,
    )


def _of_row(column: Column[Row]) -> Column[Judged]:
    return Column(heading=column.heading, text=lambda one: column.text(one.row), number=column.number)


def _interval(one: Judged) -> str:
    ends = speed_interval_of(one.row)
    return f"{figure(ends[0])} to {figure(ends[1])}" if ends else NOTHING


def _loss(one: Judged) -> str:
    check = one.loss
    if check.value is None:
        return NOTHING
    value = f"{100 * check.value + 0:.2f}"
    if check.interval is None or check.interval[0] == check.interval[1]:
        return value
    return f"{value} ± {50 * (check.interval[1] - check.interval[0]):.2f}"
