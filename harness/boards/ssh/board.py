"""A board over SSH: one connection for deployment, execution and collection.

Programs and temporary files on the board end with the connection: see harness.boards.ssh.session.
"""

from __future__ import annotations

import contextlib
import secrets
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from harness.boards.base import (
    MOST_FETCHED,
    MOST_OUTPUT,
    Completed,
    InstructionCounter,
    Profiler,
    RunTimeoutError,
    TooMuchOutputError,
)
from harness.boards.command_line import completed, kill_group, split_pid, wrapped
from harness.boards.paths import BoardPaths
from harness.boards.ssh.address import SshAddress
from harness.boards.ssh.connection import CONNECT_SECONDS, connection_to, send_at_once
from harness.boards.ssh.deployment import Deployment
from harness.boards.ssh.files import RemoteFiles, ShellFiles, files_of
from harness.boards.ssh.host_keys import HostKey
from harness.boards.ssh.lock import held
from harness.boards.ssh.session import Session
from harness.errors import BoardRefusedError, BoardUnreachableError, HarnessError
from harness.files import write_atomically
from harness.text import brief, printable

if TYPE_CHECKING:
    from harness.config.targets import Target

KEEPALIVE_SECONDS = 10
TRANSFER_SECONDS = 60.0  # of silence end a transfer: a dead connection may stay open


class SshBoard:
    """A device with an SSH server and a POSIX shell."""

    emulated = False
    profiler: Profiler | None = None
    instruction_counter: InstructionCounter | None = None  # `mpe` reads the hardware's counters

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
        self._files: RemoteFiles | None = None
        self._session: Session | None = None
        self._deployment: Deployment | None = None

    def __enter__(self) -> Self:
        try:
            self._connect()
        except BaseException:
            self._disconnect(hurry=True)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._disconnect(hurry=kind is not None)

    def _connect(self) -> None:
        import logging

        # Without a handler, paramiko prints tracebacks of the exceptions that it raises.
        logging.getLogger("paramiko").addHandler(logging.NullHandler())
        address = self.address
        if address is None:
            raise ValueError(f"{self.name} has no address")
        self._connection = connection = connection_to(address)
        if address.jump is not None:
            with self.reachable("connecting to the jump host", address.jump):
                connection.gateway.open()
        with self.reachable("connecting"):
            connection.open()
            send_at_once(connection)
            connection.transport.set_keepalive(KEEPALIVE_SECONDS)
            self._files = files = files_of(connection.transport, timeout=TRANSFER_SECONDS)
            folder = PurePosixPath(files.home()) / address.folder
            self._session = Session(connection.transport, str(folder), self._shown)
            if isinstance(files, ShellFiles):
                files.join(self._session)
        self._deployment = Deployment(self)

    def lose(self) -> None:
        """Closes the connection: the board ends the session. It is unreachable until `__enter__`."""
        self._disconnect(hurry=True)

    def _disconnect(self, *, hurry: bool = False) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close(hurry=hurry)
        connection, self._connection, self._files = self._connection, None, None
        if connection is not None:
            for opened in (connection, connection.gateway):  # Fabric does not close its gateway
                if opened is not None:
                    with contextlib.suppress(Exception):
                        opened.close()

    @property
    def session(self) -> Session:
        """The session on the board. Raises BoardUnreachableError without a connection."""
        if self._session is None:
            raise self._gone("using it")
        return self._session

    @property
    def cache_limit_bytes(self) -> int:
        """How many bytes of deployed files may stay on the board."""
        return self.address.cache_limit_bytes if self.address else 0

    @property
    def restore_script(self) -> str:
        return f"{self.session.path}/undo"  # the file's name since the first version: they share boards

    def lock(self, pause: Callable[[float], object]) -> contextlib.AbstractContextManager[None]:
        return held(self, timeout=self.address.wait_seconds if self.address else 0.0, pause=pause)

    def deploy(self, files: Mapping[str, Path]) -> Mapping[str, str]:
        """Stores every file as FOLDER/objects/SHA256/NAME, unless the board has it with the same content."""
        if self._deployment is None:
            raise self._gone("deploying")
        return self._deployment.deploy(files)

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        environment: Mapping[str, str] | None = None,
        most_output: int = MOST_OUTPUT,
    ) -> Completed:
        from invoke.exceptions import CommandTimedOut

        started, doing = time.monotonic(), f"running {printable(argv[0])}"
        running = f"{self.session.path}/running"
        try:
            with self.reachable(doing):
                line = wrapped(argv, environment or {}, running, self.session.leader)
                result = self._execute(line, timeout, most_output)
            # At a timeout Invoke closes the channel, and may report that before the timeout.
            late = result.exited < 0 and time.monotonic() - started >= timeout
        except CommandTimedOut as error:
            result, late = error.result, True
        if late:
            self._end(argv, result.stdout)
            raise RunTimeoutError(argv, self._shown, timeout)
        if result.flooded:
            self._end(argv, result.stdout)
            raise TooMuchOutputError(argv, self._shown, most_output)
        group, stdout = split_pid(result.stdout)
        ended = completed(result.exited, stdout, result.stderr)
        # When the board ends a session, for example a silent one, it kills the session's programs.
        if group is None or result.exited < 0 or ended.status == -signal.SIGKILL:
            with self.reachable(doing):
                if not self._has(running):
                    raise self._gone(doing, "the board ended the session")
        if result.exited < 0:
            raise self._gone(doing)
        if group is None:
            raise HarnessError(f"{self._shown}: {doing}: not started: {brief(result.stderr)}")
        return ended

    def _end(self, argv: Sequence[str], stdout: str) -> None:
        """Kills the program and its children. Raises BoardUnreachableError if the connection is lost."""
        from invoke.exceptions import CommandTimedOut

        group, _ = split_pid(stdout)
        if group is not None:
            with self.reachable(f"ending {printable(argv[0])}"), contextlib.suppress(CommandTimedOut):
                self._execute(kill_group(group), CONNECT_SECONDS, MOST_OUTPUT)

    def _execute(self, line: str, timeout: float, most_output: int) -> Any:
        if not self._connected:  # Fabric would reconnect silently
            raise EOFError("not connected")
        return self._connection.run(
            line,
            hide=True,
            warn=True,
            in_stream=False,
            timeout=timeout,
            encoding="utf-8",
            most_output=most_output,
        )

    def scratch(self, name: str) -> str:
        return f"{self.session.path}/{name}"

    def fetch(self, remote: str, local: Path) -> None:
        with self.reachable(f"fetching {printable(remote)}"):
            try:
                content = self.files().read(remote, MOST_FETCHED)
            except FileNotFoundError:
                raise HarnessError(f"{self._shown}: there is no file {printable(remote)}") from None
        write_atomically(local, content)

    def _has(self, path: str) -> bool:
        """Whether a file or folder exists; to be used within `reachable`."""
        return self.files().size(path) is not None

    @contextlib.contextmanager
    def _temporary_file(self) -> Iterator[str]:
        """An unused path; the file is removed at the end."""
        path = f"{self.session.path}/{secrets.token_hex(8)}"
        try:
            yield path
        finally:
            with contextlib.suppress(Exception):
                self.files().remove(path)

    @property
    def _connected(self) -> bool:
        return self._connection is not None and bool(self._connection.is_connected)

    @property
    def _shown(self) -> str:
        return printable(self.name)

    def files(self) -> RemoteFiles:
        """The board's files; to be used within `reachable`."""
        if self._files is None:
            raise EOFError("not connected")
        return self._files

    def refused(self, error: OSError) -> bool:
        """Whether the board itself reported a failure, such as a full disk.

        paramiko raises the same type of error for a lost connection.
        """
        reached = self._connected and self._files is not None and not self._files.closed
        return error.errno is None and not isinstance(error, TimeoutError) and reached

    @contextlib.contextmanager
    def reachable(self, doing: str, address: SshAddress | None = None) -> Iterator[None]:
        """Turns every error of a lost board or jump host into BoardUnreachableError."""
        from invoke.exceptions import ThreadException
        from paramiko import AuthenticationException, BadHostKeyException, SSHException

        where = f"{self._shown} ({address or self.address})"
        try:
            yield
        except BadHostKeyException as error:
            known = HostKey(kind=error.expected_key.get_name(), blob=error.expected_key.asbytes())
            shown = HostKey(kind=error.key.get_name(), blob=error.key.asbytes())
            raise BoardRefusedError(
                f"{where}: its host key has changed: {shown.kind} {shown.fingerprint} "
                f"instead of {known.kind} {known.fingerprint}",
                hint="Either the board was reinstalled or another device has its address. Find out "
                "which before you change the recorded key.",
            ) from None
        except AuthenticationException as error:
            raise BoardRefusedError(
                f"{where}: authentication failed: {error}",
                hint="Check user and key in the boards file, and authorized_keys on the board.",
            ) from None
        except PermissionError as error:
            raise HarnessError(
                f"{self._shown}: {doing}: permission denied: {printable(str(error))}"
            ) from None
        except (SSHException, EOFError, OSError, ThreadException, UnicodeError) as error:
            if isinstance(error, OSError) and self.refused(error):
                raise HarnessError(
                    f"{self._shown}: {doing}: the board reported an error: {printable(str(error))}",
                    hint="Check the board's storage and its free space (df), then try again.",
                ) from None
            raise self._gone(doing, _reason(error)) from None

    def _gone(self, doing: str, reason: str = "the connection was lost") -> BoardUnreachableError:
        if self._session is not None and self._session.silence:
            reason = self._session.silence
        return BoardUnreachableError(f"{self._shown} ({self.address}): {doing}: {reason}")


def _reason(error: BaseException) -> str:
    from paramiko.ssh_exception import NoValidConnectionsError

    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, NoValidConnectionsError):  # its message begins with "[Errno None]"
        reasons = [
            f"port {address[1]} of {address[0]}: {getattr(each, 'strerror', None) or each}"
            for address, each in error.errors.items()
        ]
        return printable("; ".join(reasons))
    # The SFTP client wraps a lost connection into an error with an empty reason.
    if isinstance(error, EOFError) or isinstance(error.__context__, EOFError):
        return "the connection was lost"
    said = error.strerror if isinstance(error, OSError) else ""
    return printable(said or str(error)) or "no reason"
