"""The address of a board: host, user, keys, and the limits that its entry in a boards file sets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.boards.ssh.host_keys import HostKey

if TYPE_CHECKING:
    from paramiko import PKey


@dataclass(frozen=True, kw_only=True)
class SshAddress:
    """Without `key` the SSH agent and the user's own keys are tried."""

    host: str
    user: str
    port: int = 22
    key: Path | PKey | None = None
    host_key: HostKey | None = None
    known_hosts: Path | None = None
    folder: str = "harness"  # relative to the home folder, or absolute
    jump: SshAddress | None = None  # the host through which it is reached
    cache_limit_bytes: int = 2 << 30  # of deployed files; the least recently used are removed first
    wait_seconds: float = 3600.0  # the longest wait for another harness on the board

    @property
    def known_as(self) -> str:
        """Its name in known_hosts files."""
        return self.host if self.port == 22 else f"[{self.host}]:{self.port}"

    def __str__(self) -> str:
        through = f" through {self.jump}" if self.jump else ""
        return f"{self.user}@{self.host}:{self.port}{through}"
