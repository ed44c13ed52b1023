"""Connections to boards, direct or through a jump host. Only recorded host keys are accepted."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.boards.ssh.host_keys import pin

if TYPE_CHECKING:
    from harness.boards.ssh.address import SshAddress

CONNECT_SECONDS = 20.0


def connection_to(address: SshAddress) -> Any:
    """A fabric.Connection (which has no types), not open yet. Its `gateway` is the jump host's, or None.

    Both accept only their recorded host keys. Raises ConfigurationError if these are invalid.
    """
    from fabric import Config, Connection

    from harness.boards.ssh.runner import RemoteRunner

    connect: dict[str, object] = dict.fromkeys(
        ("banner_timeout", "auth_timeout", "channel_timeout"), CONNECT_SECONDS
    )
    if isinstance(address.key, Path):
        connect |= {"key_filename": str(address.key), "allow_agent": False, "look_for_keys": False}
    elif address.key is not None:
        connect |= {"pkey": address.key, "allow_agent": False, "look_for_keys": False}
    connection = Connection(
        address.host,
        user=address.user,
        port=address.port,
        gateway=connection_to(address.jump) if address.jump else None,
        connect_timeout=CONNECT_SECONDS,
        connect_kwargs=connect,
        # Only the boards file decides about the connection.
        config=Config(overrides={"load_ssh_configs": False, "runners": {"remote": RemoteRunner}}, lazy=True),
    )
    # By default Fabric accepts every unknown key.
    pin(connection.client, address=address.known_as, key=address.host_key, known_hosts=address.known_hosts)
    return connection


def send_at_once(connection: Any) -> None:
    """Disables Nagle's algorithm on an open connection.

    The algorithm delays a small packet until the previous one is acknowledged, which takes up to 40 ms: every
    command would take that much longer.
    """
    first = connection.gateway or connection  # the one with a TCP socket
    first.transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
