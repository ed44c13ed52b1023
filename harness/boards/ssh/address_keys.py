"""The keys of a boards file for a host behind SSH: a board, or a jump host."""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping
from pathlib import Path

from harness.boards.ssh.address import SshAddress
from harness.boards.ssh.host_keys import parse_host_key
from harness.config.document import Node
from harness.config.validation import Field, Integer, Record, Text, Then

NEVER_IN_A_HOST = r"\s@/\x00-\x1f\x7f-\x9f"  # in the name of a host
_USER = r"(?!-)[^\s@\x00-\x1f\x7f-\x9f]+"


def checked_address(node: Node, what: str, **values: object) -> SshAddress:
    """An address from the values of these keys; the server's key is looked up in known_hosts if not given.

    Raises ConfigurationError if keys contradict each other or name absent files.
    """
    if "host_key" in values and "known_hosts" in values:
        raise node.error(f"{what} has both host_key and known_hosts", hint="Keep one of them.")
    if "host_key" in values:
        try:
            values["host_key"] = parse_host_key(str(values["host_key"]))
        except ValueError as error:
            raise node.error(f"host_key: {error}", key="host_key") from None
    elif "known_hosts" not in values:
        values["known_hosts"] = Path("~/.ssh/known_hosts").expanduser()
    for key in ("key", "known_hosts"):
        path = values.get(key)
        if isinstance(path, Path) and not stat.S_ISREG(node.mode(path, key=key)):
            hint = _record_the_key(values) if key == "known_hosts" else ""
            raise node.error(f"the file {path} does not exist", hint=hint, key=key)
    return SshAddress(**values)  # type: ignore[arg-type]


def _record_the_key(values: Mapping[str, object]) -> str:
    """The hint for a host without a recorded key."""
    host, port, user = (
        str(values.get(key, known)) for key, known in (("host", "HOST"), ("port", "22"), ("user", "USER"))
    )
    return (
        f"Run `ssh-keyscan -p {port} {host} >>FILE` to record the board's key, and name the file with "
        f"known_hosts; or connect once with `ssh -p {port} {user}@{host}`. Then compare the fingerprint "
        "(`ssh-keygen -lf FILE`) with `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on the board itself."
    )


def _file_path(node: Node, written: str) -> Path:
    try:
        return Path(node.file).parent / Path(written).expanduser()
    except RuntimeError:  # of ~somebody
        raise node.error(
            f"there is no user {written.split('/', maxsplit=1)[0][1:]} with a home folder"
        ) from None


_FILE_PATH = Then(shape=Text(expected="a path"), make=_file_path)  # ~ is the home folder

_USER_AT_HOST_PATTERN = (
    rf"(?P<user>{_USER})@(?:\[(?P<bracketed>[0-9a-fA-F:.]+(?:%[\w.-]+)?)\]|(?P<host>(?!-)[^{NEVER_IN_A_HOST}:]+))"
    r"(?::(?P<port>[0-9]{1,5}))?"
)


def _user_at_host(node: Node, written: str) -> SshAddress:
    """`user@host`, `user@host:port` or `user@[IPv6 address]:port`; its key is one of ~/.ssh/known_hosts."""
    found = re.fullmatch(_USER_AT_HOST_PATTERN, written)
    port = int(found["port"] or 22) if found else 0
    if found is None or not 1 <= port <= 65535:
        raise node.error(f'expected user@host:port, found "{written[:40]}"')
    host = found["bracketed"] or found["host"]
    return checked_address(node, "the jump host", host=host, user=found["user"], port=port)


USER_AT_HOST = Then(shape=Text(expected="user@host:port"), make=_user_at_host)
_NO_PASSWORDS = (
    "Passwords are not supported: name a private key with key, or use the SSH agent. "
    "`ssh-copy-id USER@HOST` installs your key on the board."
)
_NO_PASSPHRASES = (
    "Remove key and add the key to the SSH agent, which asks for the passphrase: `ssh-add FILE`."
)
MISNOMERS = {
    word: f"Did you mean {key}?"
    for key, words in {
        "host": ("hostname", "ip", "ipaddress", "addr", "address", "server"),
        "user": ("username", "login", "remoteuser"),
        "port": ("sshport",),
        "key": ("identity", "identityfile", "keyfile", "keyfilename", "keypath", "privatekey", "sshkey"),
        "host_key": ("fingerprint", "publickey", "serverkey"),
        "known_hosts": ("userknownhostsfile", "knownhostsfile"),
        "jump": ("proxyjump", "proxy", "proxycommand", "gateway", "bastion", "jumphost", "via"),
        "target": ("kind", "type", "model", "cpu", "board"),
        "folder": ("path", "directory", "dir", "workdir", "remotepath"),
        "wait_seconds": ("timeout", "wait", "connecttimeout"),
    }.items()
    for word in words
}
MISNOMERS |= dict.fromkeys(("password", "passwd", "pass"), _NO_PASSWORDS)
MISNOMERS |= dict.fromkeys(("passphrase", "keypassphrase"), _NO_PASSPHRASES)
MISNOMERS["sudopassword"] = "With sudo: true, sudo on the board must need no password (NOPASSWD in sudoers)."

HOST_FIELDS = {
    "host": Field(
        shape=Text(expected="a host", pattern=rf"(?!-)[^{NEVER_IN_A_HOST}]+"),
        help="host name or IP address",
        required=True,
        example="192.168.1.20",
    ),
    "user": Field(
        shape=Text(expected="a user", pattern=_USER), help="user to log in as", required=True, example="pi"
    ),
    "port": Field(
        shape=Integer(least=1, most=65535), help="port of the SSH server", default=22, example=2222
    ),
    "key": Field(
        shape=_FILE_PATH,
        help="file of the private key; the SSH agent and the user's own keys if absent",
        example="~/.ssh/id_ed25519",
    ),
    "host_key": Field(
        shape=Text(expected="a public key"),
        help="public key of the SSH server, as TYPE BASE64",
        example="ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIP2xLpB3DmEmN8e3kJ4pNUKnCnvHBmWWtPTK1kYtJnMo",
    ),
    "known_hosts": Field(
        shape=_FILE_PATH,
        help="file with the public key of the SSH server, instead of host_key",
        default="~/.ssh/known_hosts",
        example="lab_known_hosts",
    ),
}


def _of_a_host(hint: str) -> bool:
    """Whether the hint for a misnomer applies to hosts: it suggests a key of hosts, or no key."""
    return not hint.startswith("Did") or hint.removeprefix("Did you mean ").removesuffix("?") in HOST_FIELDS


JUMP_SHAPE: Record[SshAddress] = Record(
    what="a jump host",
    make=lambda node, **values: checked_address(node, "the jump host", **values),
    fields=HOST_FIELDS,
    misnomers={word: hint for word, hint in MISNOMERS.items() if _of_a_host(hint)},
)
