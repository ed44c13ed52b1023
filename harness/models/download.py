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
_LARGEST = 4 << 30  # bytes of a file of unknown size: a server may send without end
_SHOWN = 160  # characters of what a server says


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
    that name or `url` is no address, and BuildError where the download fails: no network, refused, cut too
    often, redirected to something else than http, wrong size, wrong hash.
    """
    if not _is_address(url):
        raise ConfigurationError(
            f"{url}: not an http or https address",
            hint="Write blanks and letters beyond ASCII as %20, %C3%BC and so on.",
        )
    wanted = _Wanted(url=url, size=size, sha256=sha256, advice=advice or Advice())
    with _file_errors(destination, wanted.advice):
        if destination.exists():
            wanted.check_present(destination)
            return False
        destination.parent.mkdir(parents=True, exist_ok=True)
        part = destination.with_name(destination.name + ".part")
        with _locked(part, wanted.advice) as file:
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
        if (
            path.is_file()
            and self.size in (None, path.stat().st_size)
            and self.sha256 in (None, file_digest(path))
        ):
            return
        raise ConfigurationError(
            f"{path}: exists and is not the published file",
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
            hint = f"Make room, or {advice.folder}."
        raise BuildError(f"{destination}: cannot be written: {error.strerror or error}", hint=hint) from error


@contextlib.contextmanager
def _locked(part: Path, advice: Advice) -> Iterator[IO[bytes]]:
    """The part file, open for this process alone; another fetch of the same file waits here."""
    while True:
        with _opened(part, advice) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                console.log(f"waiting for another download of {part.stem}")
                fcntl.flock(file, fcntl.LOCK_EX)
            if not _is_at(file, part):
                continue  # who held the lock has renamed the file meanwhile
            try:
                yield file
            finally:
                if _is_at(file, part) and file.seek(0, os.SEEK_END) == 0:
                    part.unlink()
            return


def _opened(part: Path, advice: Advice) -> IO[bytes]:
    """The part file, made where it is missing.

    In a folder that others write to, what has that name may be a link to another file of this user, or a file
    that somebody else changes after its hash was checked: neither is opened for writing. Raises BuildError.
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
        why = "has another name too (a hard link)"
    else:
        return os.fdopen(descriptor, "a+b")
    os.close(descriptor)
    raise _foreign(part, why, advice)


def _foreign(part: Path, why: str, advice: Advice) -> BuildError:
    return BuildError(
        f"{part}: {why}, so the download cannot continue in it",
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
                    "the file has changed there, or a proxy rewrites downloads"
                ) from None
            # What an earlier call left did not belong to this file; once more, from its beginning.
            resumed, reason, arrived = 0, "what an earlier download had left did not fit", 0
    of = "" if wanted.size is None else f" of {wanted.size:,}"
    raise BuildError(
        f"{wanted.url}: {reason} ({arrived:,}{of} bytes are here)",
        hint="Check the network and run the same command again: it continues the download.",
    )


def _receive(file: IO[bytes], wanted: _Wanted, advance: Callable[[int], None], timeout: float) -> None:
    """Appends what is missing; from the beginning where the server cannot start in the middle."""
    have = file.seek(0, os.SEEK_END)
    if have == wanted.size:
        return
    response = _answer(wanted, have, timeout)
    if response is None:  # the server's file ends before this one does
        file.truncate(0)
        advance(-have)
        raise _InterruptedError("the server has fewer bytes than are here")
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
    """The server's answer, from byte `have` on where it can do that; None where it has none from there on."""
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
    except (http.client.InvalidURL, ValueError) as error:  # of a name that no host can have
        raise wanted.refused(f"the address cannot be used: {_short(error)}") from None
    except (http.client.HTTPException, OSError) as error:
        raise _InterruptedError(f"no proper answer: {_short(error) or type(error).__name__}") from None


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a server that names another address, but not out of http, and not from https to http."""

    def __init__(self, wanted: _Wanted) -> None:
        self._wanted = wanted

    def http_error_302(  # the base class asks for a proper address before it calls redirect_request
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
            raise self._refused(fp, f"the server redirects in a circle, at last to {_short(address)}")
        return super().http_error_302(req, fp, code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302

    def _refused(self, answer: IO[bytes], why: str) -> BuildError:
        answer.close()
        return self._wanted.refused(why)


def _short(said: object) -> str:
    """What a server or the system says, in one line that can be shown."""
    return printable(" ".join(str(said).split()))[:_SHOWN]


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
            "the server does not say how long the file is, and neither its size nor its hash is known"
        )
    return size


def _read(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read1(_BLOCK)
    except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError: a chunk of no size
        cause = "" if isinstance(error, http.client.IncompleteRead) else f": {_short(error)}"
        raise _InterruptedError(f"the connection was cut{cause}") from None
