"""OpenSSH's server on this machine's loopback, for tests to take for a board."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from harness.boards.ssh.address import SshAddress
from harness.boards.ssh.host_keys import parse_host_key


@dataclass(frozen=True, kw_only=True)
class Server:
    """A running sshd that lets this user in."""

    process: subprocess.Popen[bytes]
    address: SshAddress
    folder: Path


@contextlib.contextmanager
def running_server(
    folder: Path, environment: Mapping[str, str] | None = None, *, sftp: str | None = "internal-sftp"
) -> Iterator[Server]:
    """An sshd with keys of its own, kept in `folder`; the test is skipped where none is installed.

    `environment` is added to the variables that programs have there; `sftp` is what serves files, or None.
    """
    program = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        pytest.skip("sshd is not installed: apt-get install openssh-server")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # the service would make it
    for name in ("host", "user"):
        make_key(folder / name)
    (folder / "authorized").write_bytes((folder / "user.pub").read_bytes())
    port = free_port()
    # The user's own shell start-up files have no part in this.
    variables = " ".join(
        f'"{name}={value}"' for name, value in {"HOME": folder, **(environment or {})}.items()
    )
    config = folder / "config"
    config.write_text(
        f"Port {port}\nListenAddress 127.0.0.1\n"
        f"HostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized\n"
        f"SetEnv {variables}\n"
        "PidFile none\nStrictModes no\nUsePAM no\n" + (f"Subsystem sftp {sftp}\n" if sftp else "")
    )
    with subprocess.Popen([program, "-D", "-e", "-f", str(config)], stderr=subprocess.DEVNULL) as process:
        try:
            wait_for(port)
            address = SshAddress(
                host="127.0.0.1",
                port=port,
                user=getpass.getuser(),
                key=folder / "user",
                host_key=parse_host_key((folder / "host.pub").read_text()),
                folder=str(folder / "board"),
            )
            yield Server(process=process, address=address, folder=folder)
        finally:
            process.terminate()


def make_key(path: Path) -> None:
    """An ed25519 key without a passphrase: `path` and `path`.pub."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)


def free_port() -> int:
    """A TCP port of loopback that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for(port: int) -> None:
    """Waits at most a minute until something listens."""
    for _ in range(1200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.05)
    pytest.fail(f"nothing listens on port {port}")


def address_below(server: Server, folder: Path) -> SshAddress:
    """Where the board's files are in a folder of a test's own, whose name a shell could misread."""
    return replace(server.address, folder=str(folder / 'the board\'s "folder" $(id)\n*ü'))
