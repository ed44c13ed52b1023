"""Keys of boards."""

from __future__ import annotations

import base64
import contextlib
import re
import subprocess
import tempfile
from pathlib import Path

import pytest
from board_key import FINGERPRINT, KEY
from hypothesis import given
from hypothesis import strategies as st
from paramiko import Ed25519Key, SSHClient

from harness.boards.ssh.host_keys import HostKey, parse_host_key, pin
from harness.errors import BoardRefusedError, BoardUnreachableError, ConfigurationError


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
        (KEY.replace("ssh-ed25519", "ssh-rsa"), "type of the key is not ssh-rsa"),
        ("ssh-ed25519 QUJD", "type of the key is not"),
    ],
)
def test_an_invalid_key_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_host_key(text)


def test_a_key_of_a_known_type_with_a_broken_body_is_refused() -> None:
    kind = b"ssh-ed25519"
    key = HostKey(kind=kind.decode(), blob=len(kind).to_bytes(4, "big") + kind + b"\0\0\0\1x")
    with pytest.raises(ConfigurationError, match="cannot be used"):
        pin(SSHClient(), address="board", key=key, known_hosts=None)


def test_an_unknown_key_is_refused_with_its_fingerprint() -> None:
    client = SSHClient()
    pin(client, address="board", key=None, known_hosts=None)
    policy = client._policy  # type: ignore[attr-defined]
    with pytest.raises(BoardUnreachableError, match="is not known") as error:
        policy.missing_host_key(client, "board", Ed25519Key(data=parse_host_key(KEY).blob))
    assert FINGERPRINT in str(error.value)


def test_only_the_pinned_key_is_on_record() -> None:
    client = SSHClient()
    pin(client, address="[board]:2222", key=parse_host_key(KEY), known_hosts=None)
    keys = client.get_host_keys()
    assert keys.keys() == ["[board]:2222"]
    blob = keys["[board]:2222"]["ssh-ed25519"].asbytes()
    assert base64.b64encode(blob).decode() == KEY.split()[1]


def test_a_known_hosts_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"board {KEY}\n")
    client = SSHClient()
    pin(client, address="board", key=None, known_hosts=file)
    assert client.get_host_keys().lookup("board") is not None
    assert client.get_host_keys().lookup("other") is None


def known(file: Path, address: str = "board") -> SSHClient:
    client = SSHClient()
    pin(client, address=address, key=None, known_hosts=file)
    return client


def kinds(client: SSHClient) -> list[str]:
    return sorted(client.get_host_keys().get("board", ()))


@pytest.fixture
def other(tmp_path: Path) -> str:
    """Another public key of the same kind."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")], check=True)
    return " ".join((tmp_path / "key.pub").read_text().split()[:2])


def test_hashed_hosts_are_known(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"board,[192.0.2.7]:2222 {KEY}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(file)], check=True, capture_output=True)
    assert "board" not in file.read_text()
    assert kinds(known(file)) == ["ssh-ed25519"]
    assert known(file, "[192.0.2.7]:2222").get_host_keys().keys() == ["[192.0.2.7]:2222"]
    assert not known(file, "192.0.2.7").get_host_keys().keys()


@pytest.mark.parametrize(
    ("hosts", "address"),
    [
        ("*", "board"),
        ("*.lab.example", "pi.lab.example"),
        ("*.lab.example", "lab.example"),
        ("b?ard", "board"),
        ("b?ard", "bard"),
        ("[*.lab]:2222", "[pi.lab]:2222"),
        ("*.lab", "[pi.lab]:2222"),
        ("*,!board", "board"),
        ("!board,*", "board"),
        ("!board,*", "other"),
        ("!board", "other"),
        ("board", "Board"),
        ("BOARD", "board"),
        ("[a-c]oard", "board"),
        ("board,", "other"),
    ],
)
def test_patterns_name_hosts_as_in_openssh(tmp_path: Path, hosts: str, address: str) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"{hosts} {KEY}\n")
    words = ["ssh-keygen", "-F", address, "-f", str(file)]
    found = subprocess.run(words, check=False, capture_output=True).returncode == 0
    assert bool(known(file, address).get_host_keys().keys()) == found


def test_hashes_are_of_small_letters(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"board {KEY}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(file)], check=True, capture_output=True)
    assert known(file, "Board").get_host_keys().keys() == ["Board"]


def test_authorities_comments_and_other_hosts_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_bytes(
        f"# \xe4\n\n@cert-authority *.lab,board {KEY}\n@cert-authority board {KEY} signs\nother ssh-dss ???\n"
        f"board sk-of-the-future AAAAEHNrLW9mLXRoZS1mdXR1cmU=\n\t board\t{KEY}  a comment\r\n".encode(
            "latin-1"
        )
    )
    assert kinds(known(file)) == ["ssh-ed25519"]
    file.write_text(f"@cert-authority board {KEY}\n")
    assert kinds(known(file)) == []


def test_the_first_key_of_a_kind_is_on_record(tmp_path: Path, other: str) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"board {KEY}\nboard {other}\n")
    assert known(file).get_host_keys()["board"]["ssh-ed25519"].get_base64() == KEY.split()[1]
    file.write_text(f"board {KEY}\nboard {other}\n@revoked * {KEY}\n")
    assert known(file).get_host_keys()["board"]["ssh-ed25519"].get_base64() == other.split()[1]


@pytest.mark.parametrize("hosts", ["*", "board", "another"])
def test_a_revoked_key_is_refused(tmp_path: Path, hosts: str) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"board {KEY}\n@revoked {hosts} {KEY}\n")
    client = known(file)
    assert kinds(client) == []
    policy = client._policy  # type: ignore[attr-defined]
    with pytest.raises(BoardRefusedError, match="is revoked in known_hosts") as error:
        policy.missing_host_key(client, "board", Ed25519Key(data=parse_host_key(KEY).blob))
    assert FINGERPRINT in str(error.value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("board ssh-ed25519 ???", "not base64"),
        ("board", "expected a key type"),
        ("@revoked * ssh-ed25519 QUJD", "type of the key is not"),
        (f"|1|AAAA {KEY}", "the hash of the host is invalid"),
        (f"|2|AAAA|AAAA {KEY}", "the hash of the host is invalid"),
        (f"|1|*|* {KEY}", "the hash of the host is invalid"),
        ("board ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAAXg=", "cannot be used"),
    ],
)
def test_a_line_that_cannot_be_read_is_named_with_its_number(tmp_path: Path, line: str, said: str) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"# the first line\nother {KEY}\n{line}\n")
    with pytest.raises(ConfigurationError, match=rf"known_hosts:3: .*{said}"):
        known(file)


@given(
    lines=st.lists(
        st.one_of(
            st.text(),
            st.from_regex(
                rf"(@revoked |@cert-authority |@x )?(board|\*|\|1\|[A-Z=|]*) ({KEY[:60]}|{re.escape(KEY)})?"
            ),
        )
    )
)
def test_any_known_hosts_file_is_read_or_refused(lines: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "known_hosts"
        file.write_text("\n".join(lines), encoding="utf-8", errors="surrogatepass")
        with contextlib.suppress(ConfigurationError):
            assert kinds(known(file)) in ([], ["ssh-ed25519"])


def test_a_pinned_key_of_an_unknown_kind_is_refused() -> None:
    key = parse_host_key("sk-of-the-future AAAAEHNrLW9mLXRoZS1mdXR1cmU=")
    with pytest.raises(ConfigurationError, match="unknown key type sk-of-the-future"):
        pin(SSHClient(), address="board", key=key, known_hosts=None)


def test_a_missing_known_hosts_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="absent"):
        pin(SSHClient(), address="board", key=None, known_hosts=tmp_path / "absent")
