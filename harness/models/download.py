"""Downloads a file, of which size and SHA-256 are best known beforehand.

What has arrived is kept in NAME.part beside the destination: a cut connection is taken up again there, at
once or by the next call. Only a complete file with the right hash gets its name, in one step.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import http
import http.client
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from harness import __version__
from harness.errors import BuildError, ConfigurationError
from harness.file_digest import file_digest

ATTEMPTS = 4
PAUSE = 1.0  # seconds before the second attempt, doubled before each next one
TIMEOUT = 30.0  # seconds without a byte
_BLOCK = 1 << 16


class _InterruptedError(Exception):
    """The connection could not be made or was cut; another attempt may do better."""


class _WrongContentError(Exception):
    """All bytes are there and the hash is another one."""

    def __init__(self, found: str) -> None:
        super().__init__(found)
        self.found = found


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What a user can do in another way, in the words of the command that downloads."""

    address: str = "give another address with --url"
    folder: str = "choose another folder with --to"


def download(
    url: str,
    destination: Path,
    *,
    size: int | None,
    sha256: str | None,
    advance: Callable[[int], None] = lambda _: None,
    pause: float = PAUSE,
    timeout: float = TIMEOUT,
    advice: Advice | None = None,
) -> bool:
    """Makes `destination` the published file; False where it already was.

    A size of None takes what the server says, a hash of None takes what it sends. `advance` is told of bytes
    as they arrive, first of those that an earlier call left. Raises ConfigurationError where another file has
    that name or the address is none, and BuildError where the download fails: no network, refused, cut too
    often, wrong size, wrong hash.
    """
    if not _is_address(url):
        raise ConfigurationError(
            f"{url}: not an http or https address",
            cure="Blanks and letters beyond ASCII are written as %20, %C3%BC and so on.",
        )
    wanted = _Wanted(url=url, size=size, sha256=sha256, advice=advice or Advice())
    with _file_errors(destination, wanted.advice):
        if destination.exists():
            wanted.check_present(destination)
            return False
        destination.parent.mkdir(parents=True, exist_ok=True)
        part = destination.with_name(destination.name + ".part")
        with _locked(part) as file:
            if destination.exists():  # another process was faster
                wanted.check_present(destination)
                return False
            _fill(file, wanted, advance, pause, timeout)
            part.replace(destination)
    return True


def _is_address(url: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(url)
        named = bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets, or a port that is no number
        return False
    return named and parts.scheme in ("http", "https") and re.fullmatch("[!-~]+", url) is not None


@dataclass(frozen=True, kw_only=True)
class _Wanted:
    """The published file, as far as it is known."""

    url: str
    size: int | None
    sha256: str | None
    advice: Advice

    def check_present(self, path: Path) -> None:
        if self.size in (None, path.stat().st_size) and self.sha256 in (None, file_digest(path)):
            return
        raise ConfigurationError(
            f"{path}: exists and is not the published file",
            cure=f"Move it away, or {self.advice.folder}.",
        )

    def check_hash(self, file: IO[bytes]) -> None:
        file.flush()
        file.seek(0)
        found = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
        if self.sha256 not in (None, found):
            raise _WrongContentError(found)

    def refused(self, why: str) -> BuildError:
        return BuildError(f"{self.url}: {why}", cure=f"Try again, or {self.advice.address}.")


@contextlib.contextmanager
def _file_errors(destination: Path, advice: Advice) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        cure = f"This folder cannot be written to: {advice.folder}."
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            cure = f"Make room, or {advice.folder}."
        raise BuildError(f"{destination}: cannot be written: {error.strerror or error}", cure=cure) from error


@contextlib.contextmanager
def _locked(part: Path) -> Iterator[IO[bytes]]:
    """The part file, open for this process alone; another fetch of the same file waits here."""
    while True:
        with part.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not _is_at(file, part):
                continue  # who held the lock has renamed the file meanwhile
            try:
                yield file
            finally:
                if _is_at(file, part) and file.seek(0, os.SEEK_END) == 0:
                    part.unlink()
            return


def _is_at(file: IO[bytes], path: Path) -> bool:
    """Whether the open file still has that name."""
    try:
        return path.stat().st_ino == os.fstat(file.fileno()).st_ino
    except FileNotFoundError:
        return False


def _fill(
    file: IO[bytes],
    wanted: _Wanted,
    advance: Callable[[int], None],
    pause: float,
    timeout: float,
) -> None:
    """Completes the part file. Leaves it empty where its bytes are not to be trusted."""
    resumed = file.seek(0, os.SEEK_END)
    if wanted.size is not None and resumed > wanted.size:
        resumed = file.truncate(0)
    advance(resumed)
    for attempt in range(1, ATTEMPTS + 1):
        if attempt > 1:
            time.sleep(pause * 2 ** (attempt - 2))
        try:
            _receive(file, wanted, advance, timeout)
            wanted.check_hash(file)
            return
        except _InterruptedError as interruption:
            reason, arrived = str(interruption), file.seek(0, os.SEEK_END)
        except _WrongContentError as wrong:
            advance(-file.seek(0, os.SEEK_END))
            file.truncate(0)
            if not resumed:
                raise wanted.refused(
                    f"not the published file: its sha256 is {wrong.found}, not {wanted.sha256}; "
                    "it has changed there, or something rewrites downloads"
                ) from None
            # What an earlier call left did not belong to this file; once more, from its beginning.
            resumed, reason, arrived = 0, "what an earlier download had left did not fit", 0
    of = "" if wanted.size is None else f" of {wanted.size:,}"
    raise BuildError(
        f"{wanted.url}: {reason} ({arrived:,}{of} bytes are here)",
        cure="Check the network and run the same command again: it goes on where this one stopped.",
    )


def _receive(file: IO[bytes], wanted: _Wanted, advance: Callable[[int], None], timeout: float) -> None:
    """Appends what is missing; from the beginning where the server cannot start in the middle."""
    have = file.seek(0, os.SEEK_END)
    if have == wanted.size:
        return
    headers = {"User-Agent": f"harness/{__version__}", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        request = urllib.request.Request(wanted.url, headers=headers)
        with urllib.request.urlopen(request, timeout=timeout) as response:
            if have and not _continues(response, have):
                file.truncate(0)
                advance(-have)
                have = 0
            size = _expected_size(response, wanted, have)
            while block := _read(response):
                if size is not None and have + len(block) > size:
                    file.truncate(0)
                    raise wanted.refused(f"not the published file: it has more than {size:,} bytes")
                file.write(block)
                have += len(block)
                advance(len(block))
            file.flush()
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            file.truncate(0)
            advance(-have)
        elif error.code < 500:
            raise wanted.refused(f"the server answers {error.code} {error.reason}") from None
        raise _InterruptedError(f"the server answers {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise _InterruptedError(f"no connection: {error.reason}") from None
    except (http.client.HTTPException, ConnectionError, TimeoutError) as error:
        raise _InterruptedError(f"no proper answer: {error or type(error).__name__}") from None
    if size is not None and have < size:
        raise _InterruptedError("the connection was cut")


def _continues(response: http.client.HTTPResponse, have: int) -> bool:
    """Whether the answer is the rest of the file rather than all of it."""
    return response.status == http.HTTPStatus.PARTIAL_CONTENT and (
        response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
    )


def _expected_size(response: http.client.HTTPResponse, wanted: _Wanted, have: int) -> int | None:
    """What the file will have in all; None where chunks say when it ends.

    Refuses an answer of another size before a byte of it is read, and one whose end could not be told from a
    cut.
    """
    announced = response.headers.get("Content-Length", "")
    size = have + int(announced) if announced.isdigit() else None
    if wanted.size is not None:
        if size not in (None, wanted.size):
            raise wanted.refused(f"not the published file: it has {size:,} bytes, not {wanted.size:,}")
        return wanted.size
    if size is None and wanted.sha256 is None and not response.chunked:
        raise wanted.refused("neither its size nor its hash is known, and the server does not say its size")
    return size


def _read(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read1(_BLOCK)
    except (OSError, http.client.IncompleteRead) as error:
        raise _InterruptedError(f"the connection was cut: {error}") from None
