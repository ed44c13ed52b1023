"""The boards a sweep may use: this machine, and an emulated board for every other target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.configuration.targets import load_target

if TYPE_CHECKING:
    from harness.boards.board import Board

HOST = "host"


class Fleet:
    """Finds a board for a target."""

    def is_emulated(self, target: str) -> bool:
        """Whether a target's cells run on an emulated board."""
        return target != HOST

    def missing(self) -> list[str]:
        """What has to be installed for emulated boards, a line each."""
        from harness.boards.emulated import emulation_missing

        return emulation_missing()

    def open(self, target: str) -> Board:
        """The board of a target, not connected yet."""
        from harness.boards import open_board

        return open_board(load_target(target))
