"""Boards: where a sweep's cells run. The host itself, devices over SSH, and emulated devices."""

from __future__ import annotations

from harness.boards.availability import emulation_missing
from harness.boards.block_profiler import profiling_missing
from harness.boards.inventory import open_board

__all__ = ["emulation_missing", "open_board", "profiling_missing"]
