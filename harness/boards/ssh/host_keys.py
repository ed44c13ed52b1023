"""Host keys of boards. A board with an unknown or different key is refused."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import BoardRefusedError, ConfigurationError

if TYPE_CHECKING:
    from paramiko import MissingHostKeyPolicy, PKey, SSHClient


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
    """Parses `TYPE BASE64 [comment]`. Raises ValueError with the reason."""
    words = text.split()
    if len(words) < 2:
        raise ValueError("expected a key type and a key in base64, as in /etc/ssh/ssh_host_ed25519_key.pub")
    kind, encoded = words[0], words[1]
    try:
        blob = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        raise ValueError("the key is not base64") from None
    # The blob starts with its type: the length in four bytes, then the name.
    if blob[:4] != len(kind).to_bytes(4, "big") or blob[4 : 4 + len(kind)] != kind.encode():
        raise ValueError(f"the type of the key is not {kind}")
    return HostKey(kind=kind, blob=blob)


def pin(client: SSHClient, *, address: str, key: HostKey | None, known_hosts: Path | None) -> None:
    """Makes `client` accept the board at `address` only with `key`, or else with its keys in `known_hosts`.

    `address` has the format of known_hosts: `host`, or `[host]:port` for a port other than 22. Lines of other
    hosts are ignored, as are @cert-authority lines, since certificates are not checked. A key @revoked for
    any host is refused. Raises ConfigurationError with file and line for invalid lines.
    """
    known = {"the host key": key} if key is not None else {}
    revoked: set[bytes] = set()
    if key is None and known_hosts is not None:
        known, revoked = _read_known_hosts(known_hosts, address)
    client.set_missing_host_key_policy(_refuse_unknown(revoked))
    record = client.get_host_keys()
    for place, found in known.items():
        usable = _usable(found, f"{place} of {address}", pinned=key is not None)
        # The first of each type: paramiko keeps one.
        if usable is not None and found.blob not in revoked and found.kind not in record.get(address, ()):
            record.add(address, found.kind, usable)


def _usable(key: HostKey, what: str, *, pinned: bool) -> PKey | None:
    """The key as a paramiko object; None for an unknown type in known_hosts."""
    from paramiko import PKey, SSHException
    from paramiko.pkey import UnknownKeyType

    try:
        return PKey.from_type_string(key.kind, key.blob)
    except UnknownKeyType:
        if not pinned:
            return None
        raise ConfigurationError(f"{what} cannot be used: unknown key type {key.kind}") from None
    except (SSHException, ValueError) as error:
        raise ConfigurationError(f"{what} cannot be used: {error}") from None


def _read_known_hosts(file: Path, address: str) -> tuple[dict[str, HostKey], set[bytes]]:
    """The keys of a host by their places in the file, and the keys that are revoked for any host."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigurationError(f"{file}: cannot be read: {error.strerror}") from None
    known: dict[str, HostKey] = {}
    revoked: set[bytes] = set()
    for number, line in enumerate(text.split("\n"), start=1):
        words = line.split()
        if not words or words[0].startswith(("#", "@cert-authority")):
            continue
        try:
            if words[0] == "@revoked":
                revoked.add(parse_host_key(" ".join(words[2:])).blob)
            elif _match(words[0], address):
                known[f"{file}:{number}: the key"] = parse_host_key(" ".join(words[1:]))
        except ValueError as error:
            raise ConfigurationError(
                f"{file}:{number}: invalid line of known_hosts: {error}",
                hint="Correct or remove the line; `ssh-keygen -R HOST -f FILE` removes all lines of a host.",
            ) from None
    return known, revoked


def _match(hosts: str, address: str) -> bool:
    """Whether a line of known_hosts applies to a host, as in sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT".

    Raises ValueError for an invalid hash.
    """
    address = address.lower()
    if hosts.startswith("|"):
        return _is_hash_of(hosts, address)
    found = False
    for pattern in hosts.lower().split(","):
        # [ is special in fnmatch, but not in known_hosts.
        if fnmatchcase(address, pattern.removeprefix("!").replace("[", "[[]")):
            if pattern.startswith("!"):
                return False
            found = True
    return found


def _is_hash_of(text: str, address: str) -> bool:
    try:
        _, kind, *parts = text.split("|")
        salt, digest = (base64.b64decode(part, validate=True) for part in parts)
    except ValueError:
        kind = ""
    if kind != "1":
        raise ValueError("the hash of the host is invalid")
    return hmac.compare_digest(hmac.digest(salt, address.encode(), "sha1"), digest)


def _refuse_unknown(revoked: Collection[bytes]) -> MissingHostKeyPolicy:
    from paramiko import MissingHostKeyPolicy

    class Refuse(MissingHostKeyPolicy):
        def missing_host_key(self, client: SSHClient, hostname: str, key: PKey) -> None:  # noqa: ARG002
            shown = HostKey(kind=key.get_name(), blob=key.asbytes())
            if shown.blob in revoked:
                raise BoardRefusedError(
                    f"{hostname}: its host key {shown.kind} {shown.fingerprint} is revoked in known_hosts",
                    hint="Another device may have this key: give the board a new one.",
                )
            raise BoardRefusedError(
                f"{hostname}: its host key {shown.kind} {shown.fingerprint} is not known",
                hint="Compare it with the output of `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on "
                "the board itself; if they match, set host_key in the boards file or add the key to "
                "known_hosts (`ssh-keyscan HOST`).",
            )

    return Refuse()
