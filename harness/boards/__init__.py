"""Boards: where a sweep's cells run. The host itself, devices over SSH, and emulated devices."""

from __future__ import annotations

from harness.boards.availability import counting_missing, emulation_missing
from harness.boards.inventory import open_board

__all__ = ["counting_missing", "emulation_missing", "open_board"]
