"""Mixed-precision inference on Arm boards: build, deploy, sweep precisions, report."""

from __future__ import annotations

__version__ = "0.1.0"
