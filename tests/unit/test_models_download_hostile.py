"""Downloads from servers that lie, and into folders where something else has the file's name."""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from file_server import CONTENT, SHA256, Server, server

from harness.errors import BuildError
from harness.models import download as module
from harness.models.download import ATTEMPTS, download

__all__ = ["server"]  # the fixture

Answer = Callable[[int], bytes]  # of the server's port


@contextmanager
def answering(answer: Answer, tls: ssl.SSLContext | None = None) -> Iterator[tuple[int, list[bytes]]]:
    """A server that sends the same bytes to everybody; gives its port and what was asked."""
    asked: list[bytes] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                try:
                    stream = tls.wrap_socket(connection, server_side=True) if tls else connection
                    asked.append(stream.recv(1 << 16))
                    stream.sendall(answer(port))
                    stream.close()
                except OSError:  # the client has heard enough
                    pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield port, asked
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def head(*lines: str, status: str = "200 OK") -> bytes:
    return "\r\n".join((f"HTTP/1.1 {status}", *lines, "", "")).encode("latin-1")


def redirect(place: str) -> Answer:
    return lambda port: head(f"Location: {place.format(port=port)}", status="302 Found")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda _: head("Content-Length: ²") + b"12", "the server announces a size of ² bytes"),
        (lambda _: head("Content-Length: " + "9" * 5000) + b"12", "announces a size of 9{160} bytes"),
        (lambda _: head("Content-Length: " + "9" * 4000) + b"12", "announces a size of 9{160} bytes"),
        (lambda _: head("Content-Length: -5") + b"12", "announces a size of -5 bytes"),
        (lambda _: head("Content-Length: 1_0") + b"12", "announces a size of 1_0 bytes"),
        (redirect("http://[::1"), r"redirects to http://\[::1, not an http or https address"),
        (redirect("ftp://127.0.0.1:{port}/x"), "redirects to ftp://.*, not an http or https address"),
        (redirect("file:///etc/passwd"), "redirects to file:///etc/passwd, not an http or https address"),
        (redirect("http://x\xfc/\x01"), r"redirects to http://xü/\\x01, not an http or https address"),
        (redirect("http://127.0.0.1:{port}/x"), "redirects in a loop, last to http://127.0.0.1"),
        (redirect(f"http://{'a' * 70}/"), "the address cannot be used: .*label too long"),
        (redirect("http://me:secret@127.0.0.1/"), "the address cannot be used"),
        (lambda _: head(status="302 Found"), "answers 302 without an address"),
        (lambda _: b"HTTP/1.1 404 " + b"z" * 60_000 + b"\r\n\r\n", "answers 404 z{160}\n"),
    ],
)
def test_a_wrong_answer_is_one_error_at_once(answer: Answer, said: str, tmp_path: Path) -> None:
    for size, sha256 in ((len(CONTENT), SHA256), (None, None)):
        with answering(answer) as (port, asked), pytest.raises(BuildError, match=said) as caught:
            download(f"http://127.0.0.1:{port}/w", tmp_path / "w", size=size, sha256=sha256, timeout=5.0)
        assert "--url" in caught.value.hint
        assert len(str(caught.value)) < 500
        assert len(asked) <= 5, "the first answer, and as many redirects as a circle takes"
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (head("Transfer-Encoding: chunked") + b"zz\r\nabc\r\n", "the connection was cut"),
        (head("Transfer-Encoding: chunked") + b"-5\r\nabc\r\n", "the connection was cut"),
        (b"\xff\0" * 300 + b"\r\n\r\n", "invalid answer"),
        (head(*[f"a{number}: 1" for number in range(200)]), "invalid answer"),
        (b"", "invalid answer"),
    ],
)
def test_garbage_is_tried_again_and_then_one_error(answer: bytes, said: str, tmp_path: Path) -> None:
    with answering(lambda _: answer) as (port, asked), pytest.raises(BuildError, match=said) as caught:
        download(
            f"http://127.0.0.1:{port}/w",
            tmp_path / "w",
            size=len(CONTENT),
            sha256=SHA256,
            pause=0.0,
            timeout=5.0,
        )
    assert len(asked) == ATTEMPTS
    assert len(str(caught.value)) < 500
    assert str(caught.value).isprintable() or "\n" in str(caught.value)
    assert not (tmp_path / "w").exists()


def test_more_bytes_than_announced_are_not_read(tmp_path: Path) -> None:
    with answering(lambda _: head("Content-Length: 4") + b"file and more") as (port, _):
        assert download(f"http://127.0.0.1:{port}/w", tmp_path / "w", size=None, sha256=None)
    assert (tmp_path / "w").read_bytes() == b"file"


def test_a_file_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LARGEST", 100_000)
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    endless = head("Transfer-Encoding: chunked") + chunk * 10
    with (
        answering(lambda _: endless) as (port, _),
        pytest.raises(BuildError, match="it has more than 100,000 bytes"),
    ):
        download(f"http://127.0.0.1:{port}/w", tmp_path / "w", size=None, sha256=None)
    assert list(tmp_path.iterdir()) == []


def test_an_address_with_an_impossible_host_is_refused(tmp_path: Path) -> None:
    for url in (f"http://{'a' * 70}/w", "http://a..b/w"):
        with pytest.raises(BuildError, match="the address cannot be used"):
            download(url, tmp_path / "w", size=1, sha256=SHA256)


def certificate(folder: Path) -> ssl.SSLContext:
    """A server's certificate for 127.0.0.1, in certificate.pem."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "certificate.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    return context


def test_a_redirect_from_https_to_http_is_refused(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
    to = tmp_path / "to"
    with (
        answering(redirect(server.url), tls) as (port, _),
        pytest.raises(BuildError, match="redirects from https to http:"),
    ):
        download(f"https://127.0.0.1:{port}/w", to / "w", size=len(CONTENT), sha256=SHA256)
    assert server.requested == []
    with answering(redirect(server.url)) as (port, _):  # from http to http
        assert download(f"http://127.0.0.1:{port}/w", to / "w", size=len(CONTENT), sha256=SHA256)


# --- what has the name of the unfinished file


def test_a_link_in_its_place_is_not_written_through(server: Server, tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"precious")
    for link in ("symbolic link", "hard link"):
        part = tmp_path / "model.weights.part"
        if link == "symbolic link":
            part.symlink_to(tmp_path / "precious")
        else:
            part.hardlink_to(tmp_path / "precious")
        with pytest.raises(BuildError, match=f"model.weights.part: .*{link}") as caught:
            download(server.url, tmp_path / "model.weights", size=len(CONTENT), sha256=SHA256)
        assert "Remove it" in caught.value.hint
        part.unlink()
        assert (tmp_path / "precious").read_bytes() == b"precious"
    assert server.requested == []


@pytest.mark.parametrize("kind", ["fifo", "folder"])
def test_pipes_and_folders_are_refused_at_once(server: Server, tmp_path: Path, kind: str) -> None:
    part = tmp_path / "model.weights.part"
    if kind == "fifo":
        os.mkfifo(part)
    else:
        part.mkdir()
    with pytest.raises(BuildError, match=r"is not a regular file|cannot be written: Is a directory"):
        download(server.url, tmp_path / "model.weights", size=len(CONTENT), sha256=SHA256)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_another_users_file_is_not_continued(server: Server, tmp_path: Path) -> None:
    part = tmp_path / "model.weights.part"
    part.write_bytes(CONTENT[:100])
    os.chown(part, 12345, 12345)
    with pytest.raises(BuildError, match="belongs to another user"):
        download(server.url, tmp_path / "model.weights", size=len(CONTENT), sha256=SHA256)


def test_a_fifo_with_the_files_own_name_is_another_file(server: Server, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "bazel")
    with pytest.raises(Exception, match="exists, but is not the published file"):
        download(server.url, tmp_path / "bazel", size=None, sha256=SHA256)
