"""Keys of boards."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from board_key import FINGERPRINT, KEY

from harness.boards.host_keys import HostKey, parse_host_key, pin
from harness.errors import BoardUnreachableError, ConfigurationError


def test_a_key_is_read_with_and_without_a_comment() -> None:
    assert parse_host_key(KEY) == parse_host_key(f"{KEY} root@board\n")


def test_the_fingerprint_is_the_one_that_ssh_prints() -> None:
    assert parse_host_key(KEY).fingerprint == FINGERPRINT


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected a key type"),
        ("ssh-ed25519", "expected a key type"),
        ("ssh-ed25519 not*base64", "not base64"),
        (KEY.replace("ssh-ed25519", "ssh-rsa"), "not of the type ssh-rsa"),
        ("ssh-ed25519 QUJD", "not of the type"),
    ],
)
def test_what_is_no_key_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_host_key(text)


def test_a_key_of_a_known_type_with_a_broken_body_is_refused() -> None:
    from paramiko import SSHClient

    kind = b"ssh-ed25519"
    key = HostKey(kind=kind.decode(), blob=len(kind).to_bytes(4, "big") + kind + b"\0\0\0\1x")
    with pytest.raises(ConfigurationError, match="cannot be used"):
        pin(SSHClient(), address="board", key=key, known_hosts=None)


def test_an_unknown_key_is_refused_with_its_fingerprint() -> None:
    from paramiko import Ed25519Key, SSHClient

    client = SSHClient()
    pin(client, address="board", key=None, known_hosts=None)
    policy = client._policy  # type: ignore[attr-defined]
    with pytest.raises(BoardUnreachableError, match="is not known") as error:
        policy.missing_host_key(client, "board", Ed25519Key(data=parse_host_key(KEY).blob))
    assert FINGERPRINT in str(error.value)


def test_only_the_pinned_key_is_on_record() -> None:
    from paramiko import SSHClient

    client = SSHClient()
    pin(client, address="[board]:2222", key=parse_host_key(KEY), known_hosts=None)
    keys = client.get_host_keys()
    assert keys.keys() == ["[board]:2222"]
    blob = keys["[board]:2222"]["ssh-ed25519"].asbytes()
    assert base64.b64encode(blob).decode() == KEY.split()[1]


def test_a_known_hosts_file_is_read(tmp_path: Path) -> None:
    from paramiko import SSHClient

    file = tmp_path / "known_hosts"
    file.write_text(f"board {KEY}\n")
    client = SSHClient()
    pin(client, address="board", key=None, known_hosts=file)
    assert client.get_host_keys().lookup("board") is not None
    assert client.get_host_keys().lookup("other") is None


def test_a_missing_known_hosts_file_is_named(tmp_path: Path) -> None:
    from paramiko import SSHClient

    with pytest.raises(ConfigurationError, match="absent"):
        pin(SSHClient(), address="board", key=None, known_hosts=tmp_path / "absent")
