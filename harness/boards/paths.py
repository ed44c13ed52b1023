"""Where a board keeps its sensors and settings."""

from __future__ import annotations

from dataclasses import dataclass

from harness.boards.energy import EnergyMeter


@dataclass(frozen=True, kw_only=True)
class BoardPaths:
    """Absolute paths of folders, names or paths of programs, and how settings are changed."""

    sys: str = "/sys"
    proc: str = "/proc"
    vcgencmd: str = "vcgencmd"  # Raspberry Pi's; empty: not used
    tegrastats: str = "tegrastats"  # Jetson's; empty: not used
    sudo: bool = False  # whether to use sudo, without a password, for settings that need root
    meter: EnergyMeter | None = None  # a command on this machine that reads the board's power

    @property
    def arguments(self) -> tuple[str, str, str]:
        """The first positional parameters of SENSORS."""
        return self.sys, self.proc, self.vcgencmd
