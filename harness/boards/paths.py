"""Where a board keeps its sensors and settings."""

from __future__ import annotations

from dataclasses import dataclass

from harness.boards.energy import EnergyMeter


@dataclass(frozen=True, kw_only=True)
class BoardPaths:
    """Where a board keeps what is read and set there, and how: absolute paths, a program's name or path."""

    sys: str = "/sys"
    proc: str = "/proc"
    vcgencmd: str = "vcgencmd"  # Raspberry Pi's; empty: it is not asked
    tegrastats: str = "tegrastats"  # Jetson's; empty: it is not started
    sudo: bool = False  # whether its sudo may be asked, without a password, for what its user may not set
    meter: EnergyMeter | None = None  # on this machine, says what power the board takes

    @property
    def arguments(self) -> tuple[str, str, str]:
        """What SENSORS takes as its first positional parameters."""
        return self.sys, self.proc, self.vcgencmd
