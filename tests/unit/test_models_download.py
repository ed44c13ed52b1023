"""Downloads against a local server that misbehaves in the ways real ones do."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

import pytest
from file_server import CONTENT, SHA256, Server, server

from harness.errors import BuildError, ConfigurationError
from harness.models.download import ATTEMPTS, Advice, download

__all__ = ["server"]  # the fixture


def fetch(server: Server, destination: Path) -> bool:
    return download(server.url, destination, size=len(CONTENT), sha256=SHA256, pause=0.0, timeout=5.0)


def assert_only(destination: Path) -> None:
    assert destination.read_bytes() == CONTENT
    assert list(destination.parent.iterdir()) == [destination], "nothing else is left"


def test_a_download_makes_the_folder_and_the_file(server: Server, tmp_path: Path) -> None:
    destination = tmp_path / "new" / "model.weights"
    assert fetch(server, destination)
    assert_only(destination)


def test_progress_adds_up_to_the_size(server: Server, tmp_path: Path) -> None:
    server.cuts, server.ranges = 2, False
    steps: list[int] = []
    download(
        server.url,
        tmp_path / "w",
        size=len(CONTENT),
        sha256=SHA256,
        advance=steps.append,
        pause=0.0,
        timeout=5.0,
    )
    assert sum(steps) == len(CONTENT)


def test_a_file_that_is_there_is_not_fetched_again(server: Server, tmp_path: Path) -> None:
    destination = tmp_path / "model.weights"
    destination.write_bytes(CONTENT)
    assert not fetch(server, destination)
    assert server.requested == []


def test_another_file_of_that_name_is_not_overwritten(server: Server, tmp_path: Path) -> None:
    destination = tmp_path / "model.weights"
    destination.write_bytes(b"mine")
    with pytest.raises(ConfigurationError, match="is not the published file"):
        fetch(server, destination)
    assert destination.read_bytes() == b"mine"


def test_a_wrong_hash_is_an_error_that_names_both_and_leaves_nothing(server: Server, tmp_path: Path) -> None:
    server.content = CONTENT[:-1] + b"x"
    with pytest.raises(BuildError, match="not the published file") as caught:
        fetch(server, tmp_path / "model.weights")
    assert SHA256 in str(caught.value)
    assert hashlib.sha256(server.content).hexdigest() in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    assert len(server.requested) == 1, "the same wrong file is not fetched again"


def test_a_wrong_size_is_refused_before_it_is_read(server: Server, tmp_path: Path) -> None:
    server.content = CONTENT + b"more"
    with pytest.raises(BuildError, match=f"has {len(CONTENT) + 4:,} bytes, not {len(CONTENT):,}"):
        fetch(server, tmp_path / "model.weights")
    assert list(tmp_path.iterdir()) == []


def test_too_much_of_unannounced_size_is_refused(server: Server, tmp_path: Path) -> None:
    server.content, server.announce = CONTENT + b"more", False
    with pytest.raises(BuildError, match="more than"):
        fetch(server, tmp_path / "model.weights")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("announce", [True, False])
def test_a_cut_connection_is_taken_up_where_it_was_cut(
    server: Server, tmp_path: Path, announce: bool
) -> None:
    server.cuts, server.announce = 2, announce
    assert fetch(server, tmp_path / "model.weights")
    assert_only(tmp_path / "model.weights")
    half, quarter = len(CONTENT) // 2, len(CONTENT) // 4
    assert server.requested == ["", f"bytes={half}-", f"bytes={half + quarter}-"]


def test_a_server_without_ranges_is_read_from_the_beginning(server: Server, tmp_path: Path) -> None:
    server.cuts, server.ranges = 1, False
    assert fetch(server, tmp_path / "model.weights")
    assert_only(tmp_path / "model.weights")


def test_after_too_many_cuts_the_next_call_goes_on(server: Server, tmp_path: Path) -> None:
    server.cuts = ATTEMPTS
    with pytest.raises(BuildError, match="was cut") as caught:
        fetch(server, tmp_path / "model.weights")
    assert "it resumes the download" in str(caught.value)
    assert not (tmp_path / "model.weights").exists()
    arrived = (tmp_path / "model.weights.part").stat().st_size
    assert f"{arrived:,} of {len(CONTENT):,} bytes" in str(caught.value)
    assert fetch(server, tmp_path / "model.weights")
    assert server.requested[-1] == f"bytes={arrived}-"
    assert_only(tmp_path / "model.weights")


@pytest.mark.parametrize("length", [1000, len(CONTENT), len(CONTENT) + 1000])
def test_a_part_of_something_else_is_dropped(server: Server, tmp_path: Path, length: int) -> None:
    (tmp_path / "model.weights.part").write_bytes(b"\xff" * length)
    assert fetch(server, tmp_path / "model.weights")
    assert_only(tmp_path / "model.weights")


def test_a_refused_address_is_not_tried_again(server: Server, tmp_path: Path) -> None:
    server.status = 404
    with pytest.raises(BuildError, match="answers 404"):
        fetch(server, tmp_path / "model.weights")
    assert len(server.requested) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_server_in_trouble_is_tried_again(server: Server, tmp_path: Path) -> None:
    server.status = 503
    with pytest.raises(BuildError, match="answers 503"):
        fetch(server, tmp_path / "model.weights")
    assert len(server.requested) == ATTEMPTS


def test_no_server_is_one_clear_error(server: Server, tmp_path: Path) -> None:
    url = server.url
    server.server_close()
    with pytest.raises(BuildError, match="no connection"):
        download(url, tmp_path / "w", size=len(CONTENT), sha256=SHA256, pause=0.0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "url",
    [
        *(
            "file:///etc/passwd",
            "http:///w",
            "http://[::1/w",
            "http://a:b/w",
            "http://a:0/w",
            "http://a:65536/w",
        ),
        *("http://a/b c", "http://a/\n", "http://a/\x1b[31m", "http://a/ü", "http://ü/a", "w", ""),
    ],
)
def test_an_invalid_address_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigurationError, match="not an http or https address"):
        download(url, tmp_path / "w", size=1, sha256=SHA256)


def test_a_folder_that_cannot_be_made_is_an_error(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BuildError, match="cannot be written"):
        fetch(server, tmp_path / "file" / "model.weights")


def test_two_downloads_at_once_fetch_once(server: Server, tmp_path: Path) -> None:
    results: list[bool] = []
    threads = [
        threading.Thread(target=lambda: results.append(fetch(server, tmp_path / "model.weights")))
        for _ in "ab"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [False, True]
    assert len(server.requested) == 1
    assert_only(tmp_path / "model.weights")


# --- where size or hash are not known


def fetch_unknown(server: Server, destination: Path, sha256: str | None = None) -> bool:
    return download(server.url, destination, size=None, sha256=sha256, pause=0.0, timeout=5.0)


@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize("sha256", [SHA256, None])
def test_the_server_says_where_a_file_of_unknown_size_ends(
    server: Server, tmp_path: Path, chunked: bool, sha256: str | None
) -> None:
    server.chunked, server.cuts = chunked, 2
    assert fetch_unknown(server, tmp_path / "sources.tar.gz", sha256)
    assert_only(tmp_path / "sources.tar.gz")
    assert len(server.requested) == 3


def test_chunks_from_a_server_without_ranges(server: Server, tmp_path: Path) -> None:
    server.chunked, server.cuts, server.ranges = True, 1, False
    assert fetch_unknown(server, tmp_path / "sources.tar.gz", SHA256)
    assert_only(tmp_path / "sources.tar.gz")


def test_an_end_that_could_be_a_cut_is_refused_where_the_hash_is_unknown(
    server: Server, tmp_path: Path
) -> None:
    server.announce = False
    with pytest.raises(BuildError, match="does not announce the size"):
        fetch_unknown(server, tmp_path / "bazel")
    assert list(tmp_path.iterdir()) == []
    assert fetch_unknown(server, tmp_path / "bazel", SHA256)


def test_a_wrong_hash_of_a_file_of_unknown_size(server: Server, tmp_path: Path) -> None:
    server.chunked = True
    with pytest.raises(BuildError, match="not the published file: its sha256 is"):
        fetch_unknown(server, tmp_path / "sources.tar.gz", "0" * 64)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_is_checked_by_what_is_known(server: Server, tmp_path: Path) -> None:
    (tmp_path / "bazel").write_bytes(b"another")
    assert not fetch_unknown(server, tmp_path / "bazel")
    with pytest.raises(ConfigurationError, match="is not the published file") as caught:
        download(
            server.url,
            tmp_path / "bazel",
            size=None,
            sha256=SHA256,
            advice=Advice(folder="name another cache"),
        )
    assert "Move it away, or name another cache." in str(caught.value)
    assert server.requested == []
