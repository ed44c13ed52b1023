"""Files on a board, over its connection: by SFTP, or by its shell where the SSH server has no SFTP.

Dropbear brings none, and OpenSSH's server only has what `Subsystem sftp` of its configuration names.

All methods raise FileNotFoundError for what is not there where they need it, PermissionError, OSError without
a number for what the board cannot do, as where its disk is full, and what paramiko raises where the
connection is lost.
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

_ABSENT = 44  # the status by which a script says that a file is not there
_PIECE = 1 << 18
_MOST_SAID = 1 << 14  # bytes of a complaint


class RemoteFiles(Protocol):
    """What deployment and collection need; paths are absolute."""

    @property
    def closed(self) -> bool:
        """Whether nothing can be asked any more, even if there is a connection."""

    def home(self) -> str:
        """The folder in which commands start."""

    def size(self, path: str) -> int | None:
        """In bytes; None where nothing is there."""

    def finish(self, path: str, *, mode: int, modified: int) -> None:
        """Sets a file's permissions and its time of modification, in seconds."""

    def rename(self, path: str, new: str) -> None:
        """Replaces `new`, if there is such a file, at once."""

    def make_folder(self, path: str) -> None:
        """For its owner alone."""

    def remove(self, path: str) -> None: ...

    def write(self, path: str, pieces: Iterable[bytes], *, start: int) -> None:
        """Writes a file from byte `start` on, which is its size, or 0 for a new one."""

    def read(self, path: str, most: int) -> bytes:
        """A file's bytes. Raises OSError without a number where these are more than `most`."""


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
        # A server that has no SFTP closes the channel, or starts a program that is not there. Dropbear spoils
        # channels that are opened before it has told of that program's end.
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
    """By the programs that every POSIX system has, each run over a channel of its own."""

    closed = False

    def __init__(self, transport: Transport, timeout: float) -> None:
        self._transport = transport
        self._timeout = timeout
        self._session: Session | None = None

    def join(self, session: Session) -> None:
        """From now on what writes files ends with the session: what has arrived is to be the next one's."""
        self._session = session

    def home(self) -> str:
        return self._ask("pwd").decode("utf-8", "surrogateescape").removesuffix("\n") or "/"

    def size(self, path: str) -> int | None:
        # BusyBox's `wc` reads all of a file to count its bytes, and some `stat` knows no formats.
        script = 'if [ -d "$1" ]; then echo 0; else stat -L -c %s "$1" 2>/dev/null || wc -c <"$1"; fi'
        try:
            return int(self._ask(_present(script), path))
        except FileNotFoundError:
            return None
        except ValueError:
            raise OSError(f"cannot read the size of {path}") from None

    def finish(self, path: str, *, mode: int, modified: int) -> None:
        when = time.strftime("%Y%m%d%H%M.%S", time.gmtime(modified))
        # Where `touch` sets no times, the file is hashed again in every session.
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
        """What a script prints."""
        line = quoted(["sh", "-c", script, "sh", *words])
        return self._run(line, words[0] if words else "", (), most)

    def _run(self, line: str, path: str, sent: Iterable[bytes], most: int = _MOST_SAID) -> bytes:
        """What a command line about a file prints, given what it reads, and at most so many bytes."""
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
            if "Timeout" in str(error):  # paramiko has no other sign for it
                raise TimeoutError from None
            raise

    def _send(self, channel: Channel, pieces: Iterable[bytes]) -> None:
        """A program that ends before it has read all, as where its disk is full, says why with its status."""
        for piece in pieces:
            try:
                channel.sendall(piece)
            except TimeoutError:
                raise
            except OSError:
                if not channel.status_event.wait(self._timeout) or channel.recv_exit_status() < 0:
                    raise
                return
        with suppress(OSError):  # a program that has ended
            channel.shutdown_write()


def _bounded(content: _Bytes, most: int, size: int = 0) -> _Bytes:
    """Raises OSError where something is longer than it may be, or says that it is."""
    if max(len(content), size) > most:
        raise OSError(f"it sends more than {most >> 10} kB")
    return content


def _present(script: str) -> str:
    """The script, for a file that is there."""
    return f'[ -e "$1" ] || exit {_ABSENT}; {script}'
