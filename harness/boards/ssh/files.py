"""Files on a board, over its connection: by SFTP, or by its shell where the SSH server has no SFTP.

Dropbear has no SFTP, and OpenSSH's server only with `Subsystem sftp` in its configuration.

All methods raise FileNotFoundError for missing files, PermissionError, OSError without `errno` for other
errors on the board, such as a full disk, and paramiko's errors if the connection is lost.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, TypeVar

from harness.boards.command_line import quoted, wrapped

if TYPE_CHECKING:
    from paramiko import Channel, SFTPClient, Transport

    from harness.boards.ssh.session import Session

_Bytes = TypeVar("_Bytes", bytes, bytearray)

_ABSENT = 44  # exit status of a script for a missing file
_PIECE = 1 << 18
_MOST_SAID = 1 << 14  # bytes of an error message


class RemoteFiles(Protocol):
    """File operations for deployment and collection; paths are absolute."""

    @property
    def closed(self) -> bool:
        """Whether the channel is closed, even if the connection is open."""

    def home(self) -> str:
        """The folder in which commands start."""

    def size(self, path: str) -> int | None:
        """In bytes; None for a missing file."""

    def finish(self, path: str, *, mode: int, modified: int) -> None:
        """Sets a file's permissions and its time of modification, in seconds."""

    def rename(self, path: str, new: str) -> None:
        """Replaces `new` atomically if it exists."""

    def make_folder(self, path: str) -> None:
        """For its owner alone."""

    def remove(self, path: str) -> None: ...

    def write(self, path: str, pieces: Iterable[bytes], *, start: int) -> None:
        """Writes a file from byte `start` on: its size, or 0 for a new file."""

    def read(self, path: str, most: int) -> bytes:
        """A file's bytes. Raises OSError without `errno` for more than `most` bytes."""


def files_of(transport: Transport, *, timeout: float) -> RemoteFiles:
    """The files at the other end of a connection; `timeout`: seconds of silence in a transfer."""
    from paramiko import SFTPClient, SFTPError, SSHException

    channel = transport.open_session(timeout=timeout)
    channel.settimeout(timeout)
    try:
        channel.invoke_subsystem("sftp")
        return SftpFiles(SFTPClient(channel))
    except TimeoutError:
        raise
    except (SSHException, SFTPError, EOFError, OSError):
        # A server without SFTP closes the channel, or starts a missing program. Dropbear breaks channels that
        # are opened before it has reported that program's end.
        channel.status_event.wait(timeout)
        channel.close()
        if not transport.is_active():
            raise
        return ShellFiles(transport, timeout)


class SftpFiles:
    """By SFTP."""

    def __init__(self, sftp: SFTPClient) -> None:
        self._sftp = sftp

    @property
    def closed(self) -> bool:
        channel = self._sftp.get_channel()
        return channel is None or channel.closed

    def home(self) -> str:
        return self._sftp.normalize(".") or "/"

    def size(self, path: str) -> int | None:
        try:
            return self._sftp.stat(path).st_size or 0
        except FileNotFoundError:
            return None

    def finish(self, path: str, *, mode: int, modified: int) -> None:
        self._sftp.chmod(path, mode)
        self._sftp.utime(path, (modified, modified))

    def rename(self, path: str, new: str) -> None:
        self._sftp.posix_rename(path, new)

    def make_folder(self, path: str) -> None:
        self._sftp.mkdir(path, 0o700)

    def remove(self, path: str) -> None:
        self._sftp.remove(path)

    def write(self, path: str, pieces: Iterable[bytes], *, start: int) -> None:
        with self._sftp.open(path, "r+b" if start else "wb") as remote:
            remote.set_pipelined(True)
            remote.seek(start)
            for piece in pieces:
                remote.write(piece)

    def read(self, path: str, most: int) -> bytes:
        with self._sftp.open(path, "rb") as remote:
            size = remote.stat().st_size or 0
            if size <= most:
                remote.prefetch(size)
            content: bytes = remote.read(most + 1) if size <= most else b""
            return _bounded(content, most, size)


class ShellFiles:
    """By standard POSIX programs, each over a channel of its own."""

    closed = False

    def __init__(self, transport: Transport, timeout: float) -> None:
        self._transport = transport
        self._timeout = timeout
        self._session: Session | None = None

    def join(self, session: Session) -> None:
        """From now on uploads end with the session, so that the next session can resume them."""
        self._session = session

    def home(self) -> str:
        return self._ask("pwd").decode("utf-8", "surrogateescape").removesuffix("\n") or "/"

    def size(self, path: str) -> int | None:
        # BusyBox's `wc` reads the whole file, and some versions of `stat` do not support formats.
        script = 'if [ -d "$1" ]; then echo 0; else stat -L -c %s "$1" 2>/dev/null || wc -c <"$1"; fi'
        try:
            return int(self._ask(_present(script), path))
        except FileNotFoundError:
            return None
        except ValueError:
            raise OSError(f"cannot read the size of {path}") from None

    def finish(self, path: str, *, mode: int, modified: int) -> None:
        when = time.strftime("%Y%m%d%H%M.%S", time.gmtime(modified))
        # If `touch` cannot set times, the file is hashed again in every session.
        script = 'chmod "$2" "$1" && { TZ=UTC0 touch -c -t "$3" "$1" 2>/dev/null || :; }'
        self._ask(_present(script), path, f"{mode:o}", when)

    def rename(self, path: str, new: str) -> None:
        self._ask(_present('mv -f "$1" "$2"'), path, new)

    def make_folder(self, path: str) -> None:
        self._ask('mkdir -m 700 "$1"', path)

    def remove(self, path: str) -> None:
        self._ask(_present('rm "$1"'), path)

    def write(self, path: str, pieces: Iterable[bytes], *, start: int) -> None:
        words = ["sh", "-c", f'umask 077; cat {">>" if start else ">"}"$1"', "sh", path]
        if self._session is None:
            self._run(quoted(words), path, pieces)
        else:
            running = f"{self._session.path}/running"
            self._run(wrapped(words, {}, running, self._session.leader), path, pieces)

    def read(self, path: str, most: int) -> bytes:
        return self._ask(_present('cat "$1"'), path, most=most)

    def _ask(self, script: str, *words: str, most: int = _MOST_SAID) -> bytes:
        """The output of a script."""
        line = quoted(["sh", "-c", script, "sh", *words])
        return self._run(line, words[0] if words else "", (), most)

    def _run(self, line: str, path: str, sent: Iterable[bytes], most: int = _MOST_SAID) -> bytes:
        """The output of a command about a file: `sent` is its input, `most` the limit in bytes."""
        channel = self._channel()
        try:
            channel.settimeout(self._timeout)
            channel.exec_command(line)
            self._send(channel, sent)
            said = bytearray()
            while piece := channel.recv(_PIECE):
                said += piece
                _bounded(said, most)
            complaint = channel.makefile_stderr("rb").read(_MOST_SAID).decode("utf-8", "replace").strip()
            if not channel.status_event.wait(self._timeout):
                raise TimeoutError
            status = channel.recv_exit_status()
        finally:
            channel.close()
        if status < 0:
            raise EOFError
        if status == _ABSENT:
            raise FileNotFoundError(path)
        if status:
            kind = PermissionError if "ermission denied" in complaint else OSError
            raise kind(complaint or f"status {status}")
        return bytes(said)

    def _channel(self) -> Channel:
        from paramiko import SSHException

        try:
            return self._transport.open_session(timeout=self._timeout)
        except SSHException as error:
            if "Timeout" in str(error):  # paramiko has no exception type for it
                raise TimeoutError from None
            raise

    def _send(self, channel: Channel, pieces: Iterable[bytes]) -> None:
        """Sends input. A program that ends before it has read all, for example on a full disk, is no error
        here: its status says why."""
        for piece in pieces:
            try:
                channel.sendall(piece)
            except TimeoutError:
                raise
            except OSError:
                if not channel.status_event.wait(self._timeout) or channel.recv_exit_status() < 0:
                    raise
                return
        with suppress(OSError):  # the program has ended
            channel.shutdown_write()


def _bounded(content: _Bytes, most: int, size: int = 0) -> _Bytes:
    """Raises OSError if the content or the announced size exceeds the limit."""
    if max(len(content), size) > most:
        raise OSError(f"it sends more than {most >> 10} kB")
    return content


def _present(script: str) -> str:
    """The script, preceded by a check that the file exists."""
    return f'[ -e "$1" ] || exit {_ABSENT}; {script}'
