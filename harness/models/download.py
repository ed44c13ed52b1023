"""Downloads a file, preferably of a known size and SHA-256.

NAME.part beside the destination keeps the bytes that have arrived: after a cut connection the download
resumes there, at once or in the next call. Only a complete file with the right hash gets its name.

Download libraries (pooch, requests) do not resume, and limit neither size nor redirects to plain http.
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
import stat
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from harness import __version__, console
from harness.errors import BuildError, ConfigurationError
from harness.file_digest import file_digest
from harness.text import printable

ATTEMPTS = 4
PAUSE = 1.0  # seconds before the second attempt, doubled before each next one
TIMEOUT = 30.0  # seconds without a byte
_BLOCK = 1 << 16
_LARGEST = 4 << 30  # bytes of a file of unknown size: a server may never stop sending
_SHOWN = 160  # characters of a message from a server


class _InterruptedError(Exception):
    """The connection failed or was cut; another attempt may succeed."""


class _WrongContentError(Exception):
    """The file is complete, but has another hash."""

    def __init__(self, found: str) -> None:
        super().__init__(found)
        self.found = found


@dataclass(frozen=True, kw_only=True)
class Advice:
    """Hints in the words of the command that downloads."""

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
    """Downloads `url` to `destination`; returns False if the file is there already.

    With size None the server's own size counts, with sha256 None any content is accepted. `advance` is called
    with the number of bytes that arrived, first with those of an earlier call. Raises ConfigurationError if
    `destination` is another file or `url` is malformed, and BuildError if the download fails: no network,
    refused, cut too often, redirected to another protocol, wrong size, wrong hash.
    """
    if not _is_address(url):
        raise ConfigurationError(
            f"{url}: not an http or https address",
            hint="Percent-encode blanks and non-ASCII letters, for example %20 and %C3%BC.",
        )
    wanted = _Wanted(url=url, size=size, sha256=sha256, advice=advice or Advice())
    with _file_errors(destination, wanted.advice):
        if destination.exists():
            wanted.check_present(destination)
            return False
        destination.parent.mkdir(parents=True, exist_ok=True)
        part = destination.with_name(destination.name + ".part")
        with _locked(part, wanted.advice) as file:
            if destination.exists():  # another process has finished it
                wanted.check_present(destination)
                return False
            _fill(file, wanted, advance, pause, timeout)
            part.replace(destination)
    return True


def _is_address(url: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(url)
        named = bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets, or a malformed port
        return False
    return named and parts.scheme in ("http", "https") and re.fullmatch("[!-~]+", url) is not None


@dataclass(frozen=True, kw_only=True)
class _Wanted:
    """The published file, as far as known."""

    url: str
    size: int | None
    sha256: str | None
    advice: Advice

    def check_present(self, path: Path) -> None:
        if (
            path.is_file()
            and self.size in (None, path.stat().st_size)
            and self.sha256 in (None, file_digest(path))
        ):
            return
        raise ConfigurationError(
            f"{path}: exists, but is not the published file",
            hint=f"Move it away, or {self.advice.folder}.",
        )

    def check_hash(self, file: IO[bytes]) -> None:
        file.flush()
        file.seek(0)
        found = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
        if self.sha256 not in (None, found):
            raise _WrongContentError(found)

    def refused(self, why: str) -> BuildError:
        return BuildError(f"{self.url}: {why}", hint=f"Try again, or {self.advice.address}.")


@contextlib.contextmanager
def _file_errors(destination: Path, advice: Advice) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        hint = f"Make the folder writable, or {advice.folder}."
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            hint = f"Free some space, or {advice.folder}."
        raise BuildError(f"{destination}: cannot be written: {error.strerror or error}", hint=hint) from error


@contextlib.contextmanager
def _locked(part: Path, advice: Advice) -> Iterator[IO[bytes]]:
    """The part file, locked by this process; other downloads of the same file wait here."""
    while True:
        with _opened(part, advice) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                console.log(f"waiting for another download of {part.stem}")
                fcntl.flock(file, fcntl.LOCK_EX)
            if not _is_at(file, part):
                continue  # the previous holder of the lock has renamed the file
            try:
                yield file
            finally:
                if _is_at(file, part) and file.seek(0, os.SEEK_END) == 0:
                    part.unlink()
            return


def _opened(part: Path, advice: Advice) -> IO[bytes]:
    """Opens the part file, and creates it if it is missing.

    In a folder that other users write to, the name may belong to a link to another file of this user, or to a
    file that somebody changes after the hash is checked: neither is opened. Raises BuildError.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(part, flags, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP and part.is_symlink():
            raise _foreign(part, "is a symbolic link", advice) from None
        raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        why = "is not a regular file"
    elif status.st_uid != os.geteuid():
        why = "belongs to another user"
    elif status.st_nlink > 1:
        why = "has a second name (a hard link)"
    else:
        return os.fdopen(descriptor, "a+b")
    os.close(descriptor)
    raise _foreign(part, why, advice)


def _foreign(part: Path, why: str, advice: Advice) -> BuildError:
    return BuildError(
        f"{part}: {why}; the download cannot use it",
        hint=f"Remove it, or {advice.folder}.",
    )


def _is_at(file: IO[bytes], path: Path) -> bool:
    """Whether the open file still has that name."""
    try:
        return path.lstat().st_ino == os.fstat(file.fileno()).st_ino
    except FileNotFoundError:
        return False


def _fill(
    file: IO[bytes],
    wanted: _Wanted,
    advance: Callable[[int], None],
    pause: float,
    timeout: float,
) -> None:
    """Completes the part file; empties it if its bytes cannot be trusted."""
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
                    "the authors have changed the file, or a proxy rewrites downloads"
                ) from None
            # The bytes of an earlier call belong to another file: start again.
            resumed, reason, arrived = 0, "the rest of an earlier download did not fit", 0
    of = "" if wanted.size is None else f" of {wanted.size:,}"
    raise BuildError(
        f"{wanted.url}: {reason} ({arrived:,}{of} bytes have arrived)",
        hint="Check the network and run the same command again: it resumes the download.",
    )


def _receive(file: IO[bytes], wanted: _Wanted, advance: Callable[[int], None], timeout: float) -> None:
    """Appends the missing bytes; all of them if the server cannot start in the middle."""
    have = file.seek(0, os.SEEK_END)
    if have == wanted.size:
        return
    response = _answer(wanted, have, timeout)
    if response is None:  # the server's file is shorter
        file.truncate(0)
        advance(-have)
        raise _InterruptedError("the server's file is shorter than the part that has arrived")
    with response:
        if have and not _continues(response, have):
            file.truncate(0)
            advance(-have)
            have = 0
        size = _expected_size(response, wanted, have)
        most = _LARGEST if size is None else size
        while block := _read(response):
            if have + len(block) > most:
                advance(-have)
                file.truncate(0)
                raise wanted.refused(f"not the published file: it has more than {most:,} bytes")
            file.write(block)
            have += len(block)
            advance(len(block))
        file.flush()
    if size is not None and have < size:
        raise _InterruptedError("the connection was cut")


def _answer(wanted: _Wanted, have: int, timeout: float) -> http.client.HTTPResponse | None:
    """The server's answer, from byte `have` if it supports ranges; None if the file has no such byte."""
    headers = {"User-Agent": f"harness/{__version__}", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    request = urllib.request.Request(wanted.url, headers=headers)
    opener = urllib.request.build_opener(_Redirects(wanted))
    try:
        response: http.client.HTTPResponse = opener.open(request, timeout=timeout)
        return response
    except urllib.error.HTTPError as error:
        error.close()
        said = f"the server answers {error.code} {_short(error.reason)}".strip()
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and have:
            return None
        if error.code < 500:
            raise wanted.refused(said) from None
        raise _InterruptedError(said) from None
    except urllib.error.URLError as error:
        raise _InterruptedError(f"no connection: {_short(error.reason)}") from None
    except (http.client.InvalidURL, ValueError) as error:  # an impossible host name
        raise wanted.refused(f"the address cannot be used: {_short(error)}") from None
    except (http.client.HTTPException, OSError) as error:
        raise _InterruptedError(f"invalid answer: {_short(error) or type(error).__name__}") from None


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects within http and https, but not from https to http."""

    def __init__(self, wanted: _Wanted) -> None:
        self._wanted = wanted

    def http_error_302(  # the base class parses the address before it calls redirect_request
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
    ) -> object:
        place = headers.get("Location") or headers.get("URI")
        if place is None:
            raise self._refused(fp, f"the server answers {code} without an address")
        try:
            address = urllib.parse.urljoin(req.full_url, place.replace(" ", "%20"))
        except ValueError:
            address = ""
        if not _is_address(address):
            raise self._refused(fp, f"the server redirects to {_short(place)}, not an http or https address")
        if req.type == "https" and not address.startswith("https:"):
            raise self._refused(fp, f"the server redirects from https to {_short(address)}")
        visited: dict[str, int] = getattr(req, "redirect_dict", {})
        if visited.get(address, 0) >= self.max_repeats or len(visited) >= self.max_redirections:
            raise self._refused(fp, f"the server redirects in a loop, last to {_short(address)}")
        return super().http_error_302(req, fp, code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302

    def _refused(self, answer: IO[bytes], why: str) -> BuildError:
        answer.close()
        return self._wanted.refused(why)


def _short(said: object) -> str:
    """A message of a server or the system on one printable line."""
    return printable(" ".join(str(said).split()))[:_SHOWN]


def _continues(response: http.client.HTTPResponse, have: int) -> bool:
    """Whether the answer is the rest of the file rather than all of it."""
    return response.status == http.HTTPStatus.PARTIAL_CONTENT and (
        response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
    )


def _expected_size(response: http.client.HTTPResponse, wanted: _Wanted, have: int) -> int | None:
    """The size of the whole file; None if it is sent in chunks, which mark its end.

    Refuses an answer of the wrong size before reading it, and one with an end that looks like a cut.
    """
    announced = None if response.chunked else response.headers.get("Content-Length")
    if announced is not None and not re.fullmatch("[0-9]{1,15}", announced.strip()):
        raise wanted.refused(f"the server announces a size of {_short(announced)} bytes")
    size = None if announced is None else have + int(announced)
    if wanted.size is not None:
        if size not in (None, wanted.size):
            raise wanted.refused(f"not the published file: it has {size:,} bytes, not {wanted.size:,}")
        return wanted.size
    if size is None and wanted.sha256 is None and not response.chunked:
        raise wanted.refused(
            "the server does not announce the size of the file, and neither size nor hash is known"
        )
    return size


def _read(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read1(_BLOCK)
    except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError: a chunk of no size
        cause = "" if isinstance(error, http.client.IncompleteRead) else f": {_short(error)}"
        raise _InterruptedError(f"the connection was cut{cause}") from None
