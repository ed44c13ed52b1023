"""The keys by which boards are known. A board with another key, or with none on record, is refused."""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import BoardRefusedError, ConfigurationError

if TYPE_CHECKING:
    from paramiko import MissingHostKeyPolicy, SSHClient


@dataclass(frozen=True, kw_only=True)
class HostKey:
    """A public key as OpenSSH writes it: `ssh-ed25519 AAAA…`."""

    kind: str
    blob: bytes

    @property
    def fingerprint(self) -> str:
        """As `ssh-keygen -l` prints it."""
        digest = base64.b64encode(hashlib.sha256(self.blob).digest()).decode().rstrip("=")
        return f"SHA256:{digest}"


def parse_host_key(text: str) -> HostKey:
    """Reads `TYPE BASE64 [comment]`. Raises ValueError that says what is wrong with it."""
    words = text.split()
    if len(words) < 2:
        raise ValueError("expected a key type and a key in base64, as in /etc/ssh/ssh_host_ed25519_key.pub")
    kind, encoded = words[0], words[1]
    try:
        blob = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        raise ValueError("the key is not base64") from None
    # The blob starts with its own type: four bytes of length, then the name.
    if blob[:4] != len(kind).to_bytes(4, "big") or blob[4 : 4 + len(kind)] != kind.encode():
        raise ValueError(f"the key is not of the type {kind} that stands before it")
    return HostKey(kind=kind, blob=blob)


def pin(client: SSHClient, *, address: str, key: HostKey | None, known_hosts: Path | None) -> None:
    """Makes `client` accept the board at `address` with the pinned key or those of `known_hosts`, no other.

    `address` is as known_hosts has it: `host`, or `[host]:port` for a port other than 22.
    """
    from paramiko import PKey, SSHException
    from paramiko.hostkeys import InvalidHostKey

    client.set_missing_host_key_policy(_refuse_unknown())
    if key is not None:
        try:
            client.get_host_keys().add(address, key.kind, PKey.from_type_string(key.kind, key.blob))
        except (SSHException, ValueError) as error:
            raise ConfigurationError(f"the host key of {address} cannot be used: {error}") from None
    elif known_hosts is not None:
        try:
            client.load_host_keys(str(known_hosts))
        except (OSError, InvalidHostKey) as error:
            raise ConfigurationError(
                f"{known_hosts}: cannot be read as a known_hosts file: {error}"
            ) from None


def _refuse_unknown() -> MissingHostKeyPolicy:
    from paramiko import MissingHostKeyPolicy, PKey

    class Refuse(MissingHostKeyPolicy):
        def missing_host_key(self, client: SSHClient, hostname: str, key: PKey) -> None:  # noqa: ARG002
            shown = HostKey(kind=key.get_name(), blob=key.asbytes())
            raise BoardRefusedError(
                f"{hostname}: its host key {shown.kind} {shown.fingerprint} is not known",
                cure="Compare it with `ssh-keygen -lf` of the key on the board; if it is the same, give it "
                "as host_key in the boards file or add it to known_hosts.",
            )

    return Refuse()
