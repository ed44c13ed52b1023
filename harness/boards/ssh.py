"""A board over SSH: one connection for deployment (SFTP), execution and collection."""

from __future__ import annotations

import contextlib
import hashlib
import io
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from harness import console
from harness.boards.board import Completed, RunTimeoutError
from harness.boards.command_line import completed, kill_group, split_pid, wrapped
from harness.boards.host_keys import HostKey
from harness.boards.sensors import BoardPaths
from harness.boards.ssh_connection import CONNECT_SECONDS, connection_to
from harness.errors import BoardUnreachableError, ConfigurationError, HarnessError
from harness.files import write_atomically

if TYPE_CHECKING:
    from paramiko import PKey, SFTPClient

    from harness.configuration.targets import Target

KEEPALIVE_SECONDS = 10
HOUSEKEEPING_SECONDS = 300.0  # hashing and renaming, also of large files on slow cards
_LARGE = 8 << 20  # bytes of a file that takes long enough to show it


@dataclass(frozen=True, kw_only=True)
class SshAddress:
    """Where a board is and how it is known. Without `key` the SSH agent and the user's own keys are tried."""

    host: str
    user: str
    port: int = 22
    key: Path | PKey | None = None
    host_key: HostKey | None = None
    known_hosts: Path | None = None
    folder: str = "harness"  # relative to the home folder, or absolute
    jump: SshAddress | None = None  # the host through which it is reached

    @property
    def known_as(self) -> str:
        """The name under which known_hosts files have it."""
        return self.host if self.port == 22 else f"[{self.host}]:{self.port}"

    def __str__(self) -> str:
        through = f" through {self.jump}" if self.jump else ""
        return f"{self.user}@{self.host}:{self.port}{through}"


class SshBoard:
    """A device with an SSH server and a POSIX shell."""

    emulated = False

    def __init__(
        self,
        name: str,
        target: Target,
        address: SshAddress | None = None,
        *,
        sensors: BoardPaths | None = None,
    ) -> None:
        self.name = name
        self.target = target
        self.sensors = sensors or BoardPaths()
        self.address = address
        self._connection: Any = None  # fabric.Connection, which has no types
        self._sftp: SFTPClient | None = None
        self._folder = ""
        self._verified: set[str] = set()  # paths whose content was verified over this connection

    def __enter__(self) -> Self:
        try:
            self._connect()
        except BaseException:
            self._disconnect()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._disconnect()

    def _connect(self) -> None:
        import logging

        # paramiko prints tracebacks of what is raised anyway, unless its logger has a handler.
        logging.getLogger("paramiko").addHandler(logging.NullHandler())
        address = self.address
        if address is None:
            raise ValueError(f"{self.name} has no address")
        self._connection = connection = connection_to(address)
        if address.jump is not None:
            with self._reachable("connecting to the jump host", address.jump):
                connection.gateway.open()
        with self._reachable("connecting"):
            connection.open()
            connection.transport.set_keepalive(KEEPALIVE_SECONDS)
            self._sftp = sftp = connection.sftp()
            folder = PurePosixPath(sftp.normalize(".")) / address.folder
            _make_folder(sftp, folder / "objects")
        self._folder = str(folder)
        self._verified.clear()

    def _disconnect(self) -> None:
        connection, self._connection, self._sftp = self._connection, None, None
        if connection is not None:
            for opened in (connection, connection.gateway):  # Fabric leaves its gateway open
                if opened is not None:
                    with contextlib.suppress(Exception):
                        opened.close()

    def deploy(self, files: Mapping[str, Path]) -> Mapping[str, str]:
        """Stores every file as FOLDER/objects/SHA256/NAME, unless that is there with that very content."""
        size = sum(path.stat().st_size for path in files.values() if path.is_file())
        with _waiting(f"comparing {size >> 20} MB with what is on {self.name}", size):
            hashes = {name: _sha256(path) for name, path in files.items()}
            paths = {name: self._object(hashes[name], path.name) for name, path in files.items()}
            unseen = {name: paths[name] for name in files if paths[name] not in self._verified}
            present = self._hashes(list(unseen.values()))
        for name, path in unseen.items():
            if present.get(path) != hashes[name]:
                self._send(files[name], path, hashes[name])
            self._verified.add(path)
        return paths

    def _object(self, digest: str, name: str) -> str:
        return str(PurePosixPath(self._folder) / "objects" / digest / name)

    def _hashes(self, paths: Sequence[str]) -> dict[str, str]:
        """The SHA-256 of those of the files that exist on the board, computed there."""
        found: dict[str, str] = {}
        if not paths:
            return found
        # One `sha256sum` a file and a count of them: names may hold anything but a slash.
        script = 'for f; do if [ -f "$f" ]; then sha256sum <"$f"; else echo absent; fi; done'
        result = self.run(["sh", "-c", script, "sh", *paths], timeout=HOUSEKEEPING_SECONDS)
        lines = result.stdout.splitlines()
        if result.status != 0 or len(lines) != len(paths):
            raise HarnessError(
                f"{self.name}: sha256sum failed there: {result.stderr.strip() or 'it printed nothing'}",
                cure="The board needs a POSIX shell and coreutils (or BusyBox).",
            )
        for path, line in zip(paths, lines, strict=True):
            if line != "absent":
                found[path] = line.split()[0]
        return found

    def _send(self, local: Path, path: str, digest: str) -> None:
        """Uploads under a temporary name, has the board hash what arrived, and renames."""
        folder = PurePosixPath(path).parent
        temporary = str(folder.with_name(f".{secrets.token_hex(8)}.part"))
        mode = 0o755 if local.stat().st_mode & 0o111 else 0o644
        try:
            with self._reachable(f"sending {local.name}"):
                sftp = self._open_sftp()
                size = local.stat().st_size
                with local.open("rb") as stream, _bar(f"sending {local.name} to {self.name}", size) as show:
                    sftp.putfo(stream, temporary, file_size=size, callback=show)
                sftp.chmod(temporary, mode)
            with _waiting(f"checking {local.name} on {self.name}", size):
                arrived = self._hashes([temporary]).get(temporary)
            if arrived != digest:
                raise HarnessError(
                    f"{self.name}: {local.name} arrived damaged: its hash there is {arrived or 'none'}",
                    cure="Check the board's storage and its free space (df), then try again.",
                )
            with self._reachable(f"storing {local.name}"):
                _make_folder(sftp, folder)
                sftp.posix_rename(temporary, path)
        except BaseException:
            with contextlib.suppress(Exception):
                self._open_sftp().remove(temporary)
            raise

    def run(
        self, argv: Sequence[str], *, timeout: float, environment: Mapping[str, str] | None = None
    ) -> Completed:
        from invoke.exceptions import CommandTimedOut

        started = time.monotonic()
        try:
            with self._reachable(f"running {argv[0]}"):
                result = self._execute(wrapped(argv, environment or {}), timeout)
            # Out of time, Invoke closes the channel; it may see that before it sees why.
            late = result.exited < 0 and time.monotonic() - started >= timeout
        except CommandTimedOut as error:
            result, late = error.result, True
        if late:
            self._end(argv, result.stdout)
            raise RunTimeoutError(
                f"{PurePosixPath(argv[0]).name}: did not end within {timeout:g} s on {self.name}"
            )
        group, stdout = split_pid(result.stdout)
        if group is None or result.exited < 0:
            raise self._gone(f"running {argv[0]}")
        return completed(result.exited, stdout, result.stderr)

    def _end(self, argv: Sequence[str], stdout: str) -> None:
        """Kills what was started. Raises BoardUnreachableError where that cannot be asked for any more."""
        from invoke.exceptions import CommandTimedOut

        group, _ = split_pid(stdout)
        if group is not None:
            with self._reachable(f"ending {argv[0]}"), contextlib.suppress(CommandTimedOut):
                self._execute(kill_group(group), CONNECT_SECONDS)

    def _execute(self, line: str, timeout: float) -> Any:
        connection = self._connection
        if connection is None or not connection.is_connected:  # Fabric would silently connect anew
            raise EOFError("not connected")
        return connection.run(line, hide=True, warn=True, in_stream=False, timeout=timeout, encoding="utf-8")

    def count_instructions(
        self,
        argv: Sequence[str],  # noqa: ARG002
        *,
        timeout: float,  # noqa: ARG002
        environment: Mapping[str, str] | None = None,  # noqa: ARG002
    ) -> tuple[Completed, int] | None:
        """Boards have counters of their own, which the engine reads."""
        return None

    def profile(
        self,
        argv: Sequence[str],  # noqa: ARG002
        output: Path,  # noqa: ARG002
        *,
        timeout: float,  # noqa: ARG002
        environment: Mapping[str, str] | None = None,  # noqa: ARG002
    ) -> Completed | None:
        """Only an emulator profiles."""
        return None

    def fetch(self, remote: str, local: Path) -> None:
        buffer = io.BytesIO()
        with self._reachable(f"fetching {remote}"):
            try:
                self._open_sftp().getfo(remote, buffer)
            except FileNotFoundError:
                raise HarnessError(f"{self.name}: there is no file {remote}") from None
        write_atomically(local, buffer.getvalue())

    def _has(self, path: str) -> bool:
        with self._reachable(f"looking for {path}"):
            try:
                self._open_sftp().stat(path)
            except FileNotFoundError:
                return False
        return True

    @contextlib.contextmanager
    def _temporary_file(self) -> Iterator[str]:
        """A path that nothing uses; what is written there is removed in the end."""
        path = str(PurePosixPath(self._folder) / f".{secrets.token_hex(8)}.part")
        try:
            yield path
        finally:
            with contextlib.suppress(Exception):
                self._open_sftp().remove(path)

    def _open_sftp(self) -> SFTPClient:
        if self._sftp is None:
            raise EOFError("not connected")
        return self._sftp

    @contextlib.contextmanager
    def _reachable(self, doing: str, address: SshAddress | None = None) -> Iterator[None]:
        """Turns every way in which the board, or a host on the way, is lost into BoardUnreachableError."""
        from invoke.exceptions import ThreadException
        from paramiko import AuthenticationException, BadHostKeyException, SSHException

        where = f"{self.name} ({address or self.address})"
        try:
            yield
        except BadHostKeyException as error:
            known = HostKey(kind=error.expected_key.get_name(), blob=error.expected_key.asbytes())
            shown = HostKey(kind=error.key.get_name(), blob=error.key.asbytes())
            raise BoardUnreachableError(
                f"{where}: its host key has changed: {shown.kind} {shown.fingerprint} "
                f"instead of {known.kind} {known.fingerprint}",
                cure="Either the board was installed anew or something else answers at its address. Find out "
                "which before you change the key on record.",
            ) from None
        except AuthenticationException as error:
            raise BoardUnreachableError(
                f"{where}: does not let us in: {error}",
                cure="Check user and key in the boards file, and authorized_keys on the board.",
            ) from None
        except PermissionError as error:
            raise HarnessError(f"{self.name}: {doing}: permission denied: {error}") from None
        except (SSHException, EOFError, OSError, ThreadException, UnicodeError) as error:
            raise self._gone(doing, error) from None

    def _gone(self, doing: str, error: BaseException | None = None) -> BoardUnreachableError:
        reason = str(error) if error is not None else "the connection was lost"
        if isinstance(error, EOFError) or not reason:
            reason = "the connection was lost"
        if isinstance(error, socket.timeout):
            reason = "no answer in time"
        return BoardUnreachableError(f"{self.name} ({self.address}): {doing}: {reason}")


def _waiting(description: str, size: int) -> contextlib.AbstractContextManager[object]:
    """Shows that files of this size are read; nothing for small ones."""
    return console.progress(description, None) if size >= _LARGE else contextlib.nullcontext()


@contextlib.contextmanager
def _bar(description: str, size: int) -> Iterator[Callable[[int, int], object] | None]:
    """Shows in MB how a large file gets on, for paramiko to call; nothing for a small one."""
    if size < _LARGE:
        yield None
        return
    with console.progress(f"{description}, MB", size >> 20) as progress:
        shown = 0

        def show(sent: int, _size: int) -> None:
            nonlocal shown
            progress.advance((sent >> 20) - shown)
            shown = sent >> 20

        yield show


def _make_folder(sftp: SFTPClient, folder: PurePosixPath) -> None:
    """Makes a folder and those above it that are missing."""
    try:
        sftp.stat(str(folder))
    except FileNotFoundError:
        _make_folder(sftp, folder.parent)
        with contextlib.suppress(OSError):  # another harness may make it at this moment
            sftp.mkdir(str(folder))
        sftp.stat(str(folder))


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read for deployment: {error.strerror}") from None
