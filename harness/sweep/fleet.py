"""The boards of a sweep: those of a boards file, this machine, and emulated boards for other targets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import ConfigurationError

if TYPE_CHECKING:
    from harness.boards.base import Board
    from harness.boards.inventory import BoardEntry
    from harness.config.targets import Target

HOST = "host"
_EMULATED = " (emulated)"


class Fleet:
    """Finds boards for targets. Raises ConfigurationError if the boards file is invalid."""

    def __init__(self, boards_file: Path | None = None) -> None:
        self._entries: dict[str, BoardEntry] = {}
        self._of_target: dict[str, list[BoardEntry]] = {}
        self._others: dict[str, Target] = {}  # by the names of boards without an entry
        if boards_file is not None:
            from harness.boards.inventory import read_boards

            self._entries = {entry.name: entry for entry in read_boards(boards_file)}
        for name, entry in self._entries.items():
            self._of_target.setdefault(entry.target.name, []).append(entry)
            if name == HOST or name.endswith(_EMULATED):
                raise ConfigurationError(
                    f"{boards_file}: the name {name} is reserved for this machine or an emulated board",
                    hint="Give the board another name.",
                )

    def is_emulated(self, target: Target) -> bool:
        """Whether a target's cells run on an emulated board."""
        return not target.is_host and target.name not in self._of_target

    def missing(self) -> list[str]:
        """Missing requirements of emulated boards, one per line."""
        from harness.images.availability import emulation_missing

        return emulation_missing()

    def boards(self, target: Target) -> tuple[str, ...]:
        """The names of all boards of a target; without any, that of an emulated one.

        Raises ConfigurationError where the boards file knows another target by the same name.
        """
        from harness.boards.inventory import check_target

        entries = self._of_target.get(target.name, ())
        for entry in entries:
            check_target(entry, target)
        if entries:
            return tuple(entry.name for entry in entries)
        name = HOST if target.is_host else target.name + _EMULATED
        self._others[name] = target
        return (name,)

    def pauses(self, board: str) -> Sequence[float] | None:
        """Seconds between attempts to reach a board; None: the default."""
        entry = self._entries.get(board)
        return entry.retry if entry else None

    def power_cycle(self, board: str) -> None:
        """Switches a board off and on, if its entry says how. Raises HarnessError if that fails."""
        entry = self._entries.get(board)
        if entry is not None and entry.power is not None:
            entry.power.switch("cycle")

    def open(self, board: str) -> Board:
        """A board by its name from `boards`, not yet connected."""
        from harness.boards.inventory import board_of, open_board

        if entry := self._entries.get(board):
            return board_of(entry)
        return open_board(self._others[board])
