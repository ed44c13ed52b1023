"""The boards of a running sweep: a table on terminals, lines elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from harness.report.tables import NOTHING
from harness.sweep.board_activity import Activity, BoardStatus, Left, State, seconds_left
from harness.text import printable

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

# The order of boards if not all fit.
_FIRST = {
    State.QUARANTINED: 0, State.RETRYING: 0, State.MEASURING: 1, State.WAITING: 1, State.OPENING: 1,
    State.IDLE: 2, State.FINISHED: 3,
}  # fmt: skip
_STYLES = {
    State.QUARANTINED: "red",
    State.RETRYING: "yellow",
    State.IDLE: "dim",
    State.FINISHED: "dim",
}
_WARNED_OF = (State.QUARANTINED, State.RETRYING)  # the sweep itself warns, with the cause
_PASSING = (State.IDLE, State.OPENING, State.WAITING)
_LASTING_SECONDS = 1.0  # shorter states are not reported


class BoardTable:
    """All boards of a sweep. `left` returns how many cells of a target have not ended, and their cost."""

    def __init__(self, board_statuses: Sequence[BoardStatus], left: Left) -> None:
        self._board_statuses = board_statuses
        self._left = left
        self._targets: dict[str, list[BoardStatus]] = {}
        for board_status in board_statuses:
            self._targets.setdefault(board_status.target, []).append(board_status)
        self._told: dict[BoardStatus, tuple[State, str]] = {}

    def drawn(self, height: int) -> RenderableType:
        """A table of at most `height` lines, with one board at least. If not all boards fit, those with
        problems and those at work come first, and a line below counts the others."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        shown = [(board_status, board_status.activity) for board_status in self._board_statuses]
        hidden: list[tuple[BoardStatus, Activity]] = []
        if len(shown) > height - 1:
            shown.sort(key=lambda row: _FIRST[row[1].state])
            room = max(height - 2, 1)
            shown, hidden = shown[:room], shown[room:]
        table = Table(box=None, expand=True, pad_edge=False, header_style="bold")
        for heading, widest in (("board", 24), ("target", 14)):
            table.add_column(heading, no_wrap=True, overflow="ellipsis", max_width=widest)
        table.add_column("state", no_wrap=True, overflow="ellipsis", ratio=1)
        for heading in ("for", "done", "failed", "left"):
            table.add_column(heading, no_wrap=True, overflow="ellipsis", justify="right")
        left = self._times_left()
        now = time.monotonic()
        for board_status, activity in shown:
            table.add_row(
                *_cells(board_status, activity, left.get(board_status.target), now),
                style=_STYLES.get(activity.state),
            )
        if not hidden:
            return table
        states = Counter(activity.state for _, activity in hidden)
        counts = ", ".join(f"{count} {state}" for state, count in sorted(states.items(), key=_by_rank))
        more = Text(f"and {len(hidden)} more: {counts}", style="dim", no_wrap=True, overflow="ellipsis")
        return Group(table, more)

    def news(self) -> list[str]:
        """A line for every board that has another state than at the last call."""
        lines = []
        left = self._times_left()
        now = time.monotonic()
        for board_status in self._board_statuses:
            activity = board_status.activity
            doing = activity.state, activity.what
            if doing == self._told.get(board_status):
                continue
            if activity.state in _PASSING and now - activity.since < _LASTING_SECONDS:
                continue
            self._told[board_status] = doing
            if activity.state in _WARNED_OF:
                continue
            counts = f"{activity.done} done, {activity.failed} failed"
            if (seconds := left.get(board_status.target)) is not None:
                counts += f", {board_status.target} {_duration(seconds)} left"
            lines.append(f"{printable(board_status.name)}: {_state(board_status, activity, now)} ({counts})")
        return lines

    def _times_left(self) -> Mapping[str, float | None]:
        return {
            target: seconds_left(board_statuses, *self._left(target))
            for target, board_statuses in self._targets.items()
            if target
        }


def _by_rank(pair: tuple[State, int]) -> int:
    return _FIRST[pair[0]]


def _cells(board_status: BoardStatus, activity: Activity, left: float | None, now: float) -> list[Text]:
    from rich.text import Text

    lasting = activity.state not in (State.IDLE, State.FINISHED)
    return [
        Text(printable(board_status.name)),
        Text(printable(board_status.target)),
        Text(_state(board_status, activity, now)),
        Text(_duration(now - activity.since) if lasting else ""),
        Text(str(activity.done)),
        Text(str(activity.failed), style="red" if activity.failed else ""),
        Text(NOTHING if left is None else _duration(left)),
    ]


def _state(board_status: BoardStatus, activity: Activity, now: float) -> str:
    """One line, without the contents of other columns."""
    words, what = str(activity.state), activity.what
    if activity.detail:
        words, what = "", activity.detail
    elif activity.state is State.RETRYING:
        words += f" in {_duration(max(activity.until - now, 0.0))}:"
    elif activity.state is State.QUARANTINED:
        words += ":"
    for prefix in (f"{board_status.name}: ", f"{board_status.name} ", f"{board_status.target} "):
        what = what.removeprefix(prefix)
    return printable(f"{words} {what}".strip())


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"
