"""Debian packages of a runtime: fetched, checked and unpacked without installing them."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from harness.errors import BuildError
from harness.sdk import debs
from harness.sdk.debs import DebPin, fetch_deb, unpack_deb

FILES = {
    "./usr/lib/python3/dist-packages/net/__init__.py": b"x = 1\n",
    "./usr/lib/aarch64-linux-gnu/libnet.so.1.0": b"library",
    "./usr/share/doc/net/copyright": b"MIT",
    "./usr/share/doc/net/changelog.gz": b"left out",
    "./etc/net.conf": b"left out",
}


def make_deb(path: Path, contents: dict[str, bytes] = FILES) -> DebPin:
    """A package as dpkg-deb reads it: an ar archive with two tar archives."""

    def tar(files: dict[str, bytes], links: dict[str, str]) -> bytes:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:xz") as archive:
            for name, content in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
            for name, to in links.items():
                member = tarfile.TarInfo(name)
                member.type, member.linkname = tarfile.SYMTYPE, to
                archive.addfile(member)
        return buffer.getvalue()

    links = {"./usr/lib/aarch64-linux-gnu/libnet.so.1": "/etc/passwd"}
    parts = {
        "debian-binary": b"2.0\n",
        "control.tar.xz": tar({"./control": b"Package: net\nVersion: 1\nArchitecture: arm64\n"}, {}),
        "data.tar.xz": tar(contents, links),
    }
    content = b"!<arch>\n"
    for name, part in parts.items():
        head = f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(part):<10}`\n".encode()
        content += head + part + b"\n" * (len(part) % 2)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return DebPin(
        package="net",
        path=f"pool/{path.name}",
        python="3.11",
        glibc="2.34",
        sha256=hashlib.sha256(content).hexdigest(),
    )


def test_a_package_is_unpacked_without_links_and_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pin = make_deb(tmp_path / "archive" / "pool" / "net_1_arm64.deb")
    monkeypatch.setattr(debs, "MIRROR", (tmp_path / "archive").as_uri())
    assert pin.machine == "aarch64"
    deb = fetch_deb(pin, tmp_path)
    unpack_deb(deb, tmp_path / "unpacked", lambda name: "changelog" not in name)
    found = [path for path in (tmp_path / "unpacked").rglob("*") if not path.is_dir()]
    assert {path.relative_to(tmp_path / "unpacked").as_posix(): path.read_bytes() for path in found} == {
        "net/__init__.py": b"x = 1\n",
        "usr/lib/aarch64-linux-gnu/libnet.so.1.0": b"library",
        "usr/share/doc/net/copyright": b"MIT",
    }


def test_another_file_than_the_pinned_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "archive" / "pool" / "net_1_arm64.deb"
    pin = make_deb(path)
    monkeypatch.setattr(debs, "MIRROR", (tmp_path / "archive").as_uri())
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(BuildError, match=r"not [0-9a-f]{64} as pinned"):
        fetch_deb(pin, tmp_path)
    path.unlink()
    with pytest.raises(BuildError, match=r"pool/net_1_arm64\.deb cannot be fetched"):
        fetch_deb(pin, tmp_path)
    path.write_bytes(b"no package")
    with pytest.raises(BuildError, match=r"net_1_arm64\.deb: "):
        unpack_deb(path, tmp_path / "unpacked", lambda _: True)
